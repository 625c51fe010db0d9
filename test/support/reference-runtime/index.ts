/** The door of the reference runtime: for tests of domains and adapters, never for the product. */
export { type FakeClock, openFakeClock } from './fake-clock.ts'
export {
  type CommitPoint,
  type MemoryRows,
  type MemoryStore,
  type MemoryTx,
  newMemoryRows,
  openMemoryStore,
} from './memory-store.ts'
export { referenceProfile } from './profile.ts'
export { openReferenceRuntime, type ReferenceOptions, type ReferenceRuntime } from './runtime.ts'
export { seededRandom } from './seeded-random.ts'
export {
  type Explored,
  explore,
  type Fault,
  faultModes,
  type Simulation,
  type SimulationWorld,
  simulate,
} from './simulate.ts'
