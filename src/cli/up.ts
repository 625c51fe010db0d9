/** `concord up` and `concord worker`: start this process, print what to do next, and stop cleanly. */
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Config, readConfig } from '#app/config'
import type { RunningServer } from '#app/start-server'
import { accept, type Decision, type Refusal } from '#kernel/refusal'
import { action, type Add } from './noun.ts'
import { type Cli, colorsOf, stopRequest, type Terminal } from './terminal.ts'

type Start = {
  readonly config: Config
  readonly environment: Terminal['environment']
  readonly folder: string
  readonly onProgress: (step: string) => void
}

/** Starts, announces, waits for the first signal or the loss of the data folder, and closes. */
const runUntilStopped =
  <Running extends { readonly lost: Promise<Refusal>; close(): Promise<void> }>(
    { terminal, isJson }: Cli,
    start: (options: Start) => Promise<Decision<Running>>,
    say: (running: Running, json: boolean) => void,
  ) =>
  async () => {
    const { environment, folder } = terminal
    const config = readConfig(environment, folder)
    if (!config.ok) return config
    const onProgress = (step: string) => (isJson() ? undefined : terminal.err(`${step}\n`))
    const started = await start({ config: config.value, environment, folder, onProgress })
    if (!started.ok) return started
    say(started.value, isJson())
    const lost = await Promise.race([stopRequest(terminal.stop), started.value.lost])
    if (!isJson()) terminal.err('stopping\n')
    await started.value.close()
    return lost ?? accept(undefined)
  }

export const up = (cli: Cli): Add =>
  action({
    description: 'start the database, migrate its schema and serve the API',
    examples: ['CONCORD_PORT=8000 concord up'],
    run: runUntilStopped(
      cli,
      async (options) => (await import('#app/start-server')).startServer(options),
      (server, json) => announce(cli.terminal, server, json),
    ),
  })

export const worker = (cli: Cli): Add =>
  action({
    description: 'run work from this database without the API',
    examples: ['DATABASE_URL=postgres://… concord worker'],
    run: runUntilStopped(
      cli,
      async (options) => (await import('#app/start-worker')).startWorker(options),
      ({ database, schemaVersion }, json) =>
        cli.terminal.out(
          json
            ? `${JSON.stringify({ ready: true, database, schema_version: schemaVersion })}\n`
            : `Working on ${database}. Ctrl-C stops the worker.\n`,
        ),
    ),
  })

export function announce(terminal: Terminal, server: Omit<RunningServer, 'lost' | 'close'>, json: boolean): void {
  const { address, home, database, keyFile, schemaVersion, schedulerFile, environmentName } = server
  if (json) {
    terminal.out(
      `${JSON.stringify({
        ready: true,
        address,
        home,
        database,
        key_file: keyFile,
        schema_version: schemaVersion,
        scheduler_file: schedulerFile ?? null,
        environment: environmentName ?? null,
      })}\n`,
    )
    return
  }
  const color = colorsOf(terminal)
  terminal.out(
    [
      color.bold('Concord is ready'),
      `  address   ${color.cyan(address)}   (API reference: ${address}/reference)`,
      `  data      ${home}`,
      `  database  ${database}`,
      `  key       ${keyFile}`,
      ...(schedulerFile === undefined ? [] : [`  jobs      ${schedulerFile}`]),
      ...(server.hasProject ? [] : ['  project   none in this folder; `concord init` creates one']),
      ...(environmentName === undefined ? [] : [`  takes     only work of the environment ${environmentName}`]),
      '',
      'Next, in another terminal of this folder:',
      ...nextSteps(terminal, server).map((line) => `  ${line}`),
      '',
      'Ctrl-C stops the server.',
      '',
    ].join('\n'),
  )
}

/** A task of the example catalog that needs no approval. */
const FIRST_TASK = 'Generate Report'
const FIRST_PAYLOAD = '{"report_type":"monthly_revenue","date_range":"2026-05"}'

type Started = { readonly address: string; readonly home: string; readonly taskNames: readonly string[] }

export function nextSteps(
  terminal: Pick<Terminal, 'environment' | 'folder'>,
  { address, home, taskNames }: Started,
): string[] {
  const concord = programName(import.meta.url, terminal.folder)
  const settings = settingsOf(terminal.environment, address, home)
  const first = [
    `${concord} submit "${FIRST_TASK}" --payload '${FIRST_PAYLOAD}' --wait`,
    `${concord} why cmd_…            the id that submit printed: who asked, what happened`,
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

/** Another terminal needs the address of this server and the folder with its key. */
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

/** A checkout has the script `concord` in its root. A package runs through npx. */
export function programName(moduleUrl: string, folder: string): string {
  if (!moduleUrl.endsWith('.ts')) return 'npx concord'
  const script = join(dirname(fileURLToPath(moduleUrl)), '..', '..', 'concord')
  if (dirname(script) === folder) return './concord'
  return quoted(script)
}
