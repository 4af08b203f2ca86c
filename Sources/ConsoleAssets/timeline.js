// What the service tells of a customer's course.

import { get, path } from "./api.js";

export const mostPurchases = 40;

// How everything reads over time, with the purchases that carry it. `ask` is how it is asked for.
export async function readTimeline({ customer, environment }, knownAt, signal, ask = get) {
  const query = { environment, known_at: knownAt };
  const document = await ask(`v1/customers/${path(customer)}/timeline`, query, signal);
  const ids = [...new Set(document.entitlements.flatMap((one) =>
    one.intervals.map((interval) => interval.original_transaction_id)).filter((id) => id !== null))];
  const purchases = new Map();
  const waiting = ids.slice(0, mostPurchases);
  const work = async () => {
    for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
      purchases.set(id, await ask(`v1/subscriptions/${path(id)}`, query, signal));
    }
  };
  await Promise.all([work(), work(), work(), work()]);
  return { document, purchases, others: new Map(), grants: null, unread: ids.length - purchases.size };
}
