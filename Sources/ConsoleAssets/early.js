// Asks for what is shown first while the rest of the page is still on its way.

import { readAddress } from "./address.js";
import { allows, getEarly, path } from "./api.js";
import { readTimeline } from "./timeline.js";

async function ask() {
  const { link, customer, view, environment: wanted, at, knownAt } = readAddress();
  // A link makes another session.
  if (link) return;
  const { session } = await getEarly("console/session");
  if (!customer || view || !allows(session, "customers:read")) return;
  const environment = session.key.environment ?? wanted;
  const moment = { environment, at: at === null ? null : new Date(at).toISOString(), known_at: knownAt };
  await Promise.all([
    getEarly(`v1/customers/${path(customer)}/entitlements`, moment), readTimeline({ customer, environment }, null, null, getEarly),
  ]);
}

// What fails here is asked for again by the page, which says why.
ask().catch(() => {});
