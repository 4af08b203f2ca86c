"""Receives Rightful's webhooks and keeps, in SQLite, what each customer is entitled to.

    pip install standardwebhooks
    WEBHOOK_SECRET=whsec_… RIGHTFUL_URL=https://… RIGHTFUL_KEY=… python3 receiver.py 8000

The key needs the scope customers:read. Put a proxy that speaks TLS before it.
"""

import json
import os
import sqlite3
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote
from urllib.request import Request, urlopen

from standardwebhooks import Webhook, WebhookVerificationError

LARGEST = 8 << 20  # bytes of a message

webhook = Webhook(os.environ["WEBHOOK_SECRET"])
lock = threading.Lock()  # of the database's connection and of the turns, held for no longer than one look
turns = {}
database = sqlite3.connect(os.environ.get("DATABASE", "entitlements.sqlite"), check_same_thread=False)
database.execute(
    "CREATE TABLE IF NOT EXISTS customer (id TEXT, environment TEXT, endpoint TEXT, sequence INTEGER, entitlements TEXT,"
    " PRIMARY KEY (id, environment))"
)


def entitlements_now(customer, environment):
    """What the customer is entitled to, read from Rightful."""
    url = f"{os.environ['RIGHTFUL_URL']}/v1/customers/{quote(customer, safe='')}/entitlements?environment={environment}"
    request = Request(url, headers={"Authorization": f"Bearer {os.environ['RIGHTFUL_KEY']}"})
    with urlopen(request, timeout=5) as answer:
        return json.load(answer)["entitlements"]


@contextmanager
def turn(key):
    """A customer's turn, which one message has at a time; those of others go on meanwhile, however long a read takes."""
    with lock:
        own = turns.setdefault(key, {"lock": threading.Lock(), "wanted": 0})
        own["wanted"] += 1
    try:
        with own["lock"]:
            yield
    finally:
        with lock:
            own["wanted"] -= 1
            if not own["wanted"]:
                del turns[key]


def take(change):
    """Keeps what a message says; returns once it is on the disk."""
    key, endpoint, sequence = (change["customer_id"], change["environment"]), change["endpoint"], change["sequence"]
    with turn(key):
        with lock:
            row = database.execute(
                "SELECT endpoint, sequence, entitlements FROM customer WHERE id = ? AND environment = ?", key
            ).fetchone()
        known, held = ((row[0], row[1]), json.loads(row[2])) if row else ((endpoint, 0), [])
        if (endpoint, sequence) == known and change["after"] == held:
            return  # It came before.
        is_next = (endpoint, sequence - 1) == known and change["before"] == held and not change.get("forgotten")
        # Whatever is not the next one tells that something was missed, came late, or began anew: so what holds now is read.
        held = change["after"] if is_next else entitlements_now(*key)
        open_now = " ".join(sorted(entitlement["id"] for entitlement in held if entitlement["gives_access"]))
        with lock:
            with database:  # one transaction
                if change.get("forgotten") and not held:
                    database.execute("DELETE FROM customer WHERE id = ? AND environment = ?", key)
                else:
                    database.execute("REPLACE INTO customer VALUES (?, ?, ?, ?, ?)", (*key, endpoint, sequence, json.dumps(held)))
            print(f"{key[0]} {key[1]} {sequence} {'kept' if is_next else 'read'}: {open_now}", flush=True)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # so that connections are kept
    timeout = 30

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        if not 0 <= length <= LARGEST:  # -1 would read until the sender ends
            self.close_connection = True
            return self.answer(413)
        body = self.rfile.read(length)
        try:
            # The signature, by the old secret or the new one while it is rolled, and the time, within five minutes.
            message = webhook.verify(body, dict(self.headers))
        except (WebhookVerificationError, ValueError):
            return self.answer(400)
        try:
            if message["type"] == "entitlements.changed":
                take(message["data"])
        except Exception as error:
            print(f"not kept, and sent again: {error!r}", file=sys.stderr, flush=True)
            return self.answer(500)
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
