/** The refusals of start-up: each code with its kind and the next step. */
import type { RefusalTable } from '#kernel/refusal'

const START_OVER = 'Fix it and restart. `concord doctor` checks everything a start needs.'

export const appRefusals = {
  'app.setting.invalid': ['configuration', '`concord doctor --settings` lists every setting and what it takes.'],
  'app.setting.unknown': ['configuration', '`concord doctor --settings` lists every setting.'],
  'app.home.not_writable': ['configuration', 'Set CONCORD_HOME to a folder of your own.'],
  'app.unhealthy': ['configuration', START_OVER],
  'app.port.taken': ['configuration', 'Stop that program, or set CONCORD_PORT to another port.'],
  'app.project.missing': ['configuration', '`concord init <folder>` creates a project.'],
  'app.project.invalid': ['configuration', START_OVER],
  'app.server.unreachable': ['unavailable', 'Start one with `concord up`, or set CONCORD_URL.'],
  'app.server.version': ['unavailable', 'Install the command line with the same version as the server.'],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    app: typeof appRefusals
  }
}
