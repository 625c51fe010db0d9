/** The exports of `@concordhq/concord/kernel`: the contracts as pure functions and tables. */

// Answers
export * from './actor.ts'
export * from './clock.ts'
export * from './errors.ts'
export * from './refusal.ts'

// State machines
export * from './machine.ts'
export * from './machine-graph.ts'
export * from './machines/index.ts'

// Task graphs
export * from './dag/graph.ts'
export * from './dag/readiness.ts'

// Policy
export * from './policy/policy.ts'
export * from './policy/evaluate.ts'
export * from './policy/declared-rule.ts'

// Failures and retries
export * from './error-classes.ts'
export * from './retry.ts'
export * from './retry-policy.ts'

// Effects and compensation
export * from './saga/compensation.ts'
export * from './saga/catalog.ts'

// Leases and schedules
export * from './lease.ts'
export * from './schedule.ts'
export * from './cron.ts'

// Values
export * from './duration.ts'
export * from './instant.ts'
export * from './ids.ts'
export * from './money.ts'
export * from './idempotency-key.ts'
export * from './json-guard.ts'
export * from './json-value.ts'
export * from './canonical-json.ts'
export * from './agent-step.ts'
