/** The reference runtime, for tests of domains and adapters and never for the product. */
export { openMemoryStore } from './memory-store.ts'
export { openReferenceRuntime } from './runtime.ts'
export { seededRandom } from './seeded-random.ts'
