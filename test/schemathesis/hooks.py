"""A request that has the form of the document is refused only for what no form can say: these codes, and no other."""

import os

import schemathesis
from schemathesis.core.parameters import ParameterLocation

ACCEPTED = {401, 403, 404, 409, 410, 429, 503}

BEYOND_FORMS = {
    # depends on what the server has made or the project declares
    "cursor_invalid",
    "key_reused",
    "dag_cycle",
    "idempotency.field.missing",
    "schedules.command_type.unknown",
    "schedules.command_type.not_scheduled",
    "schedules.payload.invalid",
    "schedules.queue.unknown",
    "scheduler.job_type.unknown",
    "memory.schema.unknown",
    # depends on the clock or on the machine
    "time_range",
    "memory.expiry.past",
    "timezone_unknown",
    # a range of cron that ends before it begins, and a day that no month has
    "cron_value",
    "cron_never",
    # a key that is not in NFC
    "key_characters",
    # the rules of a schema, which the document leaves open
    "scheduler.schema.keyword",
    # anything inside an open object, and all keys of a body together
    "json_too_many_keys",
    "nul_character",
    "number_out_of_range",
}

CRON = {"$ref": "#/components/schemas/CronExpression"}

# The key of the run, which everybody may revoke: every later request would be refused.
OWN_KEY = os.environ["SCHEMATHESIS_OWN_KEY"]
NO_KEY = "key_" + "0" * 12 + "7" + "0" * 3 + "8" + "0" * 15

sent_keys = set()


@schemathesis.hook
def before_load_schema(ctx, raw_schema):
    """The generator needs minutes for a cron expression of exactly the greatest length."""
    for schema in raw_schema["components"]["schemas"].values():
        for field in schema.get("properties", {}).values():
            if CRON in field.get("allOf", []):
                field.pop("maxLength", None)


@schemathesis.hook
def before_call(ctx, case, kwargs):
    """Leads requests to their handlers: most would end at an unknown workspace or a used key. No request waits long or for ever."""
    if case.meta is None:
        return
    body = case.body if isinstance(case.body, dict) else {}
    if case.headers and not case.meta.is_negative_at(ParameterLocation.HEADER):
        case.headers.pop("X-Workspace-ID", None)
        case.headers.pop("X-Workspace", None)
        if "idempotency_key" in body:
            case.headers.pop("Idempotency-Key", None)
    if case.path_parameters and case.path_parameters.get("key_id") == OWN_KEY:
        case.path_parameters["key_id"] = NO_KEY
    if not case.meta.is_negative_at(ParameterLocation.QUERY):
        if case.query:
            case.query.pop("workspace_id", None)
        if case.operation.path == "/events":
            case.query = {**(case.query or {}), "until": "now"}
    if body and not case.meta.is_negative_at(ParameterLocation.BODY):
        if "wait" in body:
            case.body = body = {**body, "wait": "50ms"}
        if body.get("idempotency_key") in sent_keys:
            case.body = {**body, "idempotency_key": case.id}
        elif "idempotency_key" in body:
            sent_keys.add(body["idempotency_key"])


@schemathesis.check
def refused_within_forms(ctx, response, case):
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if response.status_code < 400 or response.status_code in ACCEPTED:
        return
    code = response.json().get("code")
    assert code in BEYOND_FORMS, f"{response.status_code} {code}: the document should state what the server refuses"
