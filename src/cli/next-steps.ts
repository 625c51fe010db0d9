/** What to type after the start, all the way to a result; every line works when it is pasted. */
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Terminal } from './terminal.ts'

/** The task of the example catalog that needs nobody's consent. */
const FIRST_TASK = 'Generate Report'
const FIRST_PAYLOAD = '{"report_type":"monthly_revenue","date_range":"2026-05"}'

export type Started = { readonly address: string; readonly home: string; readonly taskNames: readonly string[] }

export function nextSteps(
  terminal: Pick<Terminal, 'environment' | 'folder'>,
  { address, home, taskNames }: Started,
): string[] {
  const concord = programName(import.meta.url, terminal.folder)
  const settings = settingsOf(terminal.environment, address, home)
  const first = [
    `${concord} submit "${FIRST_TASK}" --payload '${FIRST_PAYLOAD}' --wait`,
    `${concord} why cmd_…            the id that submit printed: who asked, what was done`,
    `${concord} artifacts list`,
    `${concord} artifacts get art_…  one of them`,
  ]
  return [
    ...(settings.length > 0 ? [`export ${settings.join(' ')}`] : []),
    `curl ${address}/health`,
    `${concord} task-types`,
    ...(taskNames.includes(FIRST_TASK) ? first : []),
    `${concord} inbox`,
    `${concord} events tail --from-start`,
  ]
}

/** What the other terminal does not know: without the address it asks another server, without the folder it has no key. */
function settingsOf(environment: Terminal['environment'], address: string, home: string): string[] {
  const isElsewhere = environment['CONCORD_PORT'] !== undefined || environment['CONCORD_HOST'] !== undefined
  return [
    ...(isElsewhere ? [`CONCORD_URL=${address}`] : []),
    ...(environment['CONCORD_HOME'] === undefined ? [] : [`CONCORD_HOME=${quoted(home)}`]),
  ]
}

function quoted(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`
}

/** A checkout has the script `concord` in its root; a package is called through npx. */
export function programName(moduleUrl: string, folder: string): string {
  if (!moduleUrl.endsWith('.ts')) return 'npx concord'
  const script = join(dirname(fileURLToPath(moduleUrl)), '..', '..', 'concord')
  if (dirname(script) === folder) return './concord'
  return quoted(script)
}
