/** The export of the DBOS engine. */
export { createDbosCarrier } from './carrier.ts'
