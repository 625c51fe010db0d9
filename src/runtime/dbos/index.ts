/** The door of the default runtime. */
export { dbosProfile } from './profile.ts'
export { createDbosRuntime, type DbosOptions, type DbosRuntime } from './runtime.ts'
export type { EngineLog } from './engine.ts'
export { defaultTimes, type WorkerTimes } from './worker.ts'
