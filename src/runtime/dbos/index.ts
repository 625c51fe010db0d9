/** The door of DBOS as an engine. */
export { createDbosCarrier } from './carrier.ts'
export { createDbosRuntime } from './runtime.ts'
