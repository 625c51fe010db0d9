/** What the package exports of the composition root; the command line imports its files. */
export { type Config, type Environment, readConfig } from './config.ts'
export { defineProject, type Project } from './project.ts'
export type { StartOptions } from './open-base.ts'
export { type RunningServer, startServer } from './start-server.ts'
export { version } from './version.ts'
export { systemDeps, type SystemDeps } from './system-deps.ts'
