"""A request that has the form of the document is refused only for what no form can say: these codes, and no other."""

import schemathesis

ACCEPTED = {401, 403, 404, 409, 410, 429, 503}

BEYOND_FORMS = {
    # depends on what the server has made or the project declares
    "cursor_invalid",
    "key_reused",
    "commands.payload.malformed",
    "idempotency.field.missing",
    "idempotency.key.required",
    "schedules.payload.invalid",
    "schedules.queue.unknown",
    "scheduler.job_type.unknown",
    "scheduler.params.invalid",
    "memory.schema.unknown",
    # depends on the clock or on the machine
    "date_range",
    "timezone_unknown",
    # compares two places of the request
    "api.idempotency_key.differs",
    "dag_cycle",
    # a meaning inside the form
    "cron_never",
    "cron_value",
    "key_characters",
    "scheduler.schema.keyword",
    # anything inside an open object
    "api.field.secret",
    "json_too_deep",
    "json_too_many_keys",
    "key_forbidden",
    "nul_character",
    "number_out_of_range",
}


@schemathesis.check
def refused_within_forms(ctx, response, case):
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if response.status_code < 400 or response.status_code in ACCEPTED:
        return
    code = response.json().get("code")
    assert code in BEYOND_FORMS, f"{response.status_code} {code}: the document should state what the server refuses"
