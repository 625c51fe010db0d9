/** The door of DBOS as an engine. */
export { createDbosCarrier, dbosProfile } from './carrier.ts'
export { createDbosRuntime, type DbosOptions } from './runtime.ts'
