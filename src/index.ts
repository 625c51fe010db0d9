/** What `import … from 'concord'` gives: the service as a whole. The parts are `concord/kernel` and `concord/store`. */
export {
  type Config,
  type Environment,
  readConfig,
  realWorld,
  type RunningServer,
  type StartOptions,
  startServer,
  version,
  type World,
} from '#app'
export type { Decision, Refusal } from '#kernel/refusal'
