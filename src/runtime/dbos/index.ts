/** The exports of the DBOS engine. */
export { createDbosCarrier } from './carrier.ts'
export { createDbosRuntime } from './runtime.ts'
