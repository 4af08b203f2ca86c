"""Holds exchanges with the service to its OpenAPI description; deploy/validate-answers runs it."""

import collections
import copy
import json
import pathlib
import re
import sys
import time
import urllib.parse

import jsonschema_rs
from openapi_spec_validator import validate

DESCRIPTION = "/v1/openapi.json"
MOST_TOLD = 40


def tightened(schema):
    """The same, but that no member and no word is allowed that is not described: the description leaves room for additions."""
    if isinstance(schema, list):
        return [tightened(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    result = {name: tightened(value) for name, value in schema.items()}
    if "x-extensible-enum" in result:
        result["enum"] = result["x-extensible-enum"]
    alternatives = result.get("oneOf", [])
    if len(alternatives) == 2 and alternatives[1] == {"type": "null"}:
        # Says the same, and of what is not null it tells the place.
        del result["oneOf"]
        result |= {"if": {"type": "null"}, "else": alternatives[0]}
    if isinstance(schema.get("properties"), dict) and schema.get("type") in ("object", ["object", "null"]):
        result.setdefault("additionalProperties", False)
    return result


class Description:
    def __init__(self, document):
        self.document = document
        components = document["components"]["schemas"]
        self.components = {False: components, True: tightened(copy.deepcopy(components))}
        self.validators = {}
        self.operations = []
        for template, methods in document["paths"].items():
            segments = template.split("/")
            for method, operation in methods.items():
                self.operations.append((method.upper(), segments, operation))
        # What stands there by its name comes before what a parameter stands for.
        self.operations.sort(key=lambda entry: [segment.startswith("{") for segment in entry[1]])

    def resolved(self, value):
        while "$ref" in value:
            found = self.document
            for name in value["$ref"].removeprefix("#/").split("/"):
                found = found[name.replace("~1", "/").replace("~0", "~")]
            value = found
        return value

    def operation(self, method, path):
        segments = path.split("/")
        for known, template, operation in self.operations:
            if known == method and len(template) == len(segments) and all(
                wanted.startswith("{") or wanted == segment for wanted, segment in zip(template, segments)
            ):
                return operation
        return None

    def errors(self, schema, value, strict):
        """What is wrong with a value, each with the place in it."""
        key = (json.dumps(schema, sort_keys=True), strict)
        if key not in self.validators:
            whole = {"allOf": [tightened(schema) if strict else schema], "components": {"schemas": self.components[strict]}}
            self.validators[key] = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
        return [f"{place(error.instance_path)}: {error.message[:300]}" for error in self.validators[key].iter_errors(value)]


def place(path):
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


def answer_errors(description, operation, exchange):
    response = operation["responses"].get(str(exchange["status"]))
    if response is None:
        return [f"status {exchange['status']} is not described"]
    response = description.resolved(response)
    content = response.get("content")
    if content is None:
        return [] if not exchange["answer"] else ["the description says that it has no body"]
    if exchange["method"] == "HEAD":
        return []
    # Without parameters such as the charset, on either side.
    content = {name.split(";")[0]: described for name, described in content.items()}
    media = (exchange["type"] or "").split(";")[0]
    if media not in content:
        return [f"the media type {media or '(none)'} is not described"]
    if not media.endswith("json"):
        return []
    value = json.loads(exchange["answer"])
    errors = description.errors(content[media].get("schema", {}), value, strict=True)
    codes = response.get("x-problem-codes")
    if codes is not None and value.get("code") not in codes:
        errors.append(f"$.code: {value.get('code')} is not among {', '.join(codes)}")
    return errors


def message_errors(description, exchange):
    """What is wrong with a message that was sent to an endpoint of webhooks."""
    webhook = description.document["webhooks"].get(exchange["target"])
    if webhook is None:
        return None, [f"messages {exchange['target'] or 'without a type'} are not described"]
    schema = webhook["post"]["requestBody"]["content"]["application/json"]["schema"]
    return webhook["post"], description.errors(schema, json.loads(exchange["answer"]), strict=True)


def exchange_errors(description, exchange):
    if exchange["method"] == "MESSAGE":
        return message_errors(description, exchange)
    path = urllib.parse.urlsplit(exchange["target"]).path
    method = "GET" if exchange["method"] == "HEAD" else exchange["method"]
    operation = description.operation(method, path)
    if operation is None:
        # There is nothing there, or not with this method.
        if exchange["status"] < 400:
            return None, ["is answered, and not described"]
        if exchange["method"] == "HEAD" or path.startswith("/revenuecat/"):
            return None, []
        problem = {"$ref": "#/components/schemas/Problem"}
        return None, description.errors(problem, json.loads(exchange["answer"]), strict=True)
    errors = answer_errors(description, operation, exchange)
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if exchange.get("request") and body is not None:
        found = description.errors(body["schema"], json.loads(exchange["request"]), strict=False)
        errors += [f"the request was carried out, and is not described: {error}" for error in found]
    return operation, errors


def example_errors(description):
    """What is wrong with the examples, which are held to the description as answers are."""
    errors = []

    def look(value, where):
        if isinstance(value, list):
            for index, entry in enumerate(value):
                look(entry, f"{where}[{index}]")
        if not isinstance(value, dict):
            return
        if "example" in value and "schema" in value:
            found = description.errors(value["schema"], value["example"], strict=True)
            errors.extend(f"example of {where}: {error}" for error in found)
        for name, member in value.items():
            if name != "schema" and name != "example":
                look(member, f"{where}/{name}")

    document = description.document
    for part in ("paths", "webhooks"):
        look(document[part], part)
    for part in ("responses", "parameters"):
        look(document["components"][part], f"components/{part}")
    return errors


def exchanges(directory):
    """The exchanges, one of each of those that are alike to the letter but for digits, hashes and signed texts."""
    seen = set()
    digits = str.maketrans("123456789", "000000000")
    # With a digit at the least, so that it is the name of no member and no word.
    opaque = re.compile(r"[0-9a-f]*0[0-9a-f-]{15,}|eyJ[A-Za-z0-9_.-]+")
    for file in sorted(pathlib.Path(directory).glob("*.jsonl")):
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                key = hash(opaque.sub("0", line.translate(digits)))
                # What ended in the midst of a line was killed, and its part has failed.
                if key not in seen and line.endswith("\n"):
                    seen.add(key)
                    yield json.loads(line)


def main(directory):
    begin = time.monotonic()
    noted = list(exchanges(directory))
    documents = {
        exchange["answer"] for exchange in noted if exchange["target"] == DESCRIPTION and exchange["status"] == 200
    }
    if len(documents) != 1:
        sys.exit(f"{len(documents)} descriptions were served to the tests; one is needed")
    document = json.loads(documents.pop())
    results = collections.OrderedDict()
    try:
        validate(document)
        results["the description is valid OpenAPI 3.1"] = []
    except Exception as error:  # pylint: disable=broad-except
        results["the description is valid OpenAPI 3.1"] = [str(error).splitlines()[0]]
    description = Description(document)
    results["every example is as the description says"] = example_errors(description)
    wrong, answered = collections.OrderedDict(), set()
    for exchange in noted:
        operation, errors = exchange_errors(description, exchange)
        if operation is not None and exchange["status"] < 300:
            answered.add(operation["operationId"])
        for error in errors:
            name = (operation or {}).get("operationId", exchange["target"])
            # The first of those that are alike stands for them.
            wrong.setdefault((name, exchange["status"], error.translate(str.maketrans("123456789", "0" * 9))),
                             f"{exchange['method']} {exchange['target']} -> {exchange['status']}: {error}")
    results[f"{len(noted)} different answers are as the description says"] = list(wrong.values())
    missing = {operation["operationId"] for _, _, operation in description.operations} - answered
    results["every operation was carried out by a test"] = [f"{name} was not" for name in sorted(missing)]
    for name, errors in results.items():
        for error in errors[:MOST_TOLD]:
            print(f"↳ {error}")
        if len(errors) > MOST_TOLD:
            print(f"↳ and {len(errors) - MOST_TOLD} more")
        print(f'{"✘" if errors else "✔"} Test "{name}" {"failed" if errors else "passed"} after 0 seconds.')
    failed = any(results.values())
    seconds = time.monotonic() - begin
    print(f'{"✘" if failed else "✔"} Test run with {len(results)} tests {"failed" if failed else "passed"} '
          f"after {seconds:.3f} seconds.")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(sys.argv[1])
