/// What Stripe sends and answers, for the corpus: it signs the bytes of a delivery and nothing in them.
enum StripeInputs {
    static let texts: [String: String] = [
        "invoice": #"""
        {"id":"evt_1","object":"event","api_version":"2026-07-29.dahlia","created":1767225660,\#
        "livemode":false,"pending_webhooks":1,"type":"invoice.paid","data":{"object":{"id":"in_1",\#
        "object":"invoice","status":"paid","amount_paid":999,\#
        "parent":{"subscription_details":{"metadata":{"rightful_customer_id":"c-1"},\#
        "subscription":"sub_1"}},"status_transitions":{"paid_at":1767225660},\#
        "lines":{"has_more":true,"data":[{"id":"il_1","amount":999,\#
        "parent":{"subscription_item_details":{"proration":false,"subscription":"sub_1",\#
        "subscription_item":"si_1"}},"period":{"start":1767225600,"end":1769904000},\#
        "pricing":{"price_details":{"price":"price_1","product":"prod_1"}}}]}}}}
        """#,
        "invoice-before-basil": #"""
        {"id":"evt_1","object":"event","api_version":"2020-08-27","created":1767225660,\#
        "livemode":false,"type":"invoice.paid","data":{"object":{"id":"in_1","object":"invoice",\#
        "paid":true,"amount_paid":999,"subscription":"sub_1","charge":"ch_1",\#
        "payment_intent":"pi_1","lines":{"data":[{"id":"il_1","amount":0,"proration":false,\#
        "subscription":"sub_1","subscription_item":"si_1","type":"subscription",\#
        "period":{"start":1767225600,"end":1769904000},"plan":{"id":"price_1",\#
        "product":"prod_1"}}]}}}}
        """#,
        "subscription": #"""
        {"id":"evt_2","object":"event","created":1767225661,"livemode":true,\#
        "type":"customer.subscription.updated","data":{"object":{"id":"sub_1",\#
        "object":"subscription","status":"past_due","cancel_at_period_end":true,"ended_at":null,\#
        "pause_collection":{"behavior":"void"},"trial_end":1767225600,\#
        "metadata":{"rightful_customer_id":"c-1"},"items":{"has_more":false,"data":[{"id":"si_1",\#
        "current_period_end":1769904000,"price":{"id":"price_1","product":"prod_1"}}]}}}}
        """#,
        "session": #"""
        {"id":"evt_3","object":"event","created":1767225662,"livemode":true,\#
        "type":"checkout.session.completed","data":{"object":{"id":"cs_1",\#
        "object":"checkout.session","mode":"payment","payment_status":"paid","status":"complete",\#
        "payment_intent":"pi_1","amount_total":4999,"client_reference_id":"c-2",\#
        "metadata":{"rightful_product_id":"lifetime"}}}}
        """#,
        "reading": #"""
        {"object":"web_reading","environment":"production","read_at":1768000009000,\#
        "answers":[{"path":"","body":{"id":"re_1","object":"refund","amount":999,"charge":"ch_1",\#
        "payment_intent":"pi_1","created":1768000000,"status":"succeeded"}},\#
        {"path":"/v1/invoice_payments?payment[type]=payment_intent&payment[payment_intent]=pi_1&expand[]=data.invoice&limit=100",\#
        "body":{"object":"list","has_more":false,"data":[{"object":"invoice_payment",\#
        "invoice":{"id":"in_1","object":"invoice","status":"paid","amount_paid":999,\#
        "parent":{"subscription_details":{"metadata":{"rightful_customer_id":"c-1"},\#
        "subscription":"sub_1"}},"status_transitions":{"paid_at":1767225660},\#
        "lines":{"has_more":true,"data":[{"id":"il_1","amount":999,\#
        "parent":{"subscription_item_details":{"proration":false,"subscription":"sub_1",\#
        "subscription_item":"si_1"}},"period":{"start":1767225600,"end":1769904000},\#
        "pricing":{"price_details":{"price":"price_1","product":"prod_1"}}}]}},"amount_paid":999,\#
        "payment":{"payment_intent":"pi_1"}}]}}]}
        """#,
        "dispute": #"""
        {"id":"evt_4","object":"event","created":1768000001,"livemode":true,\#
        "type":"charge.dispute.closed","data":{"object":{"id":"dp_1","object":"dispute",\#
        "status":"lost","created":1768000000,"charge":"ch_1","payment_intent":"pi_1"}}}
        """#,
        "thin": #"""
        {"object":"v2.core.event","id":"evt_5","type":"v1.invoice.paid",\#
        "created":"2026-01-01T00:01:00.000Z","livemode":false,"related_object":{"id":"in_1",\#
        "type":"invoice","url":"/v1/invoices/in_1"}}
        """#,
        "list": #"""
        {"object":"list","has_more":true,"data":[{"object":"v2.core.event","id":"evt_5",\#
        "type":"v1.invoice.paid","created":"2026-01-01T00:01:00.000Z","livemode":false,\#
        "related_object":{"id":"in_1","type":"invoice","url":"/v1/invoices/in_1"}},{"id":"evt_4",\#
        "object":"event","created":1768000001,"livemode":true,"type":"charge.dispute.closed",\#
        "data":{"object":{"id":"dp_1","object":"dispute","status":"lost","created":1768000000,\#
        "charge":"ch_1","payment_intent":"pi_1"}}}]}
        """#,
    ]
}
