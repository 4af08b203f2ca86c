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
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote
from urllib.request import Request, urlopen

from standardwebhooks import Webhook, WebhookVerificationError

LARGEST = 8 << 20  # bytes of a message

webhook = Webhook(os.environ["WEBHOOK_SECRET"])
lock = threading.Lock()
database = sqlite3.connect(os.environ.get("DATABASE", "entitlements.sqlite"), check_same_thread=False)
database.execute(
    "CREATE TABLE IF NOT EXISTS customer (id TEXT, environment TEXT, sequence INTEGER, entitlements TEXT,"
    " PRIMARY KEY (id, environment))"
)


def entitlements_now(customer, environment):
    """What the customer is entitled to, read from Rightful."""
    url = f"{os.environ['RIGHTFUL_URL']}/v1/customers/{quote(customer, safe='')}/entitlements?environment={environment}"
    request = Request(url, headers={"Authorization": f"Bearer {os.environ['RIGHTFUL_KEY']}"})
    with urlopen(request, timeout=5) as answer:
        return json.load(answer)["entitlements"]


def take(change):
    """Keeps what a message says; returns once it is on the disk."""
    key, sequence = (change["customer_id"], change["environment"]), change["sequence"]
    with lock:
        with database:  # one transaction
            row = database.execute("SELECT sequence FROM customer WHERE id = ? AND environment = ?", key).fetchone()
            known = row[0] if row else 0
            if sequence <= known:
                return  # It came before.
            # After a hole something was missed, so what holds now is read.
            held = change["after"] if sequence == known + 1 else entitlements_now(*key)
            database.execute("REPLACE INTO customer VALUES (?, ?, ?, ?)", (*key, sequence, json.dumps(held)))
            if change.get("forgotten"):  # The last about them; should they come back, they are counted from 1.
                database.execute("DELETE FROM customer WHERE id = ? AND environment = ?", key)
        open_now = " ".join(sorted(entitlement["id"] for entitlement in held if entitlement["gives_access"]))
        print(f"{key[0]} {key[1]} {sequence} {'kept' if sequence == known + 1 else 'read'}: {open_now}", flush=True)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # so that connections are kept
    timeout = 30

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        if length > LARGEST:
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
