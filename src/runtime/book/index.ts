/** The exports of the book: the runtime over any carrier, and the carrier interface. */
export { type BookOptions, type BookRuntime, createRuntime } from './book.ts'
export type { Carrier, CarrierHost, EngineLog, GivenTurn } from './carrier.ts'
export { openWatch, type Watch } from './watch.ts'
