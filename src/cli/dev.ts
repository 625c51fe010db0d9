/** `concord dev`: serves the project of this folder and restarts it on every change. The database keeps running. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { extname } from 'node:path'
import process from 'node:process'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { readConfig } from '#app/config'
import type { RunningServer } from '#app/start-server'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { action, type Add } from './noun.ts'
import { type Cli, showRefusal, stopRequest, type VerbResult } from './terminal.ts'
import { announce } from './up.ts'
import { watchSources } from './watch-sources.ts'

/** The first answer of the child: what it serves, or why it does not. */
export type DevAnswer = Decision<Omit<RunningServer, 'lost' | 'close'>>

export const dev = (cli: Cli): Add =>
  action({
    description: 'serve the project of this folder, and restart it on every change',
    examples: ['concord dev'],
    run: () => runDev(cli),
  })

async function runDev(cli: Cli): Promise<VerbResult> {
  const { environment, folder } = cli.terminal
  const config = readConfig(environment, folder)
  if (!config.ok) return config
  const { findProjectFile, PROJECT_FILE } = await import('#app/project')
  if ((await findProjectFile(folder)) === undefined)
    return refuse('app.project.missing', `There is no ${PROJECT_FILE} in ${folder}.`, { path: folder })
  const [{ openStore }, { openLog }] = await Promise.all([import('#app/open-store'), import('#app/log')])
  if (!cli.isJson()) cli.terminal.err('starting Postgres\n')
  const store = await openStore(config.value, openLog(config.value.logLevel))
  if (!store.ok) return store
  const sources = watchSources(folder, [config.value.home])
  try {
    await serveUntilStopped(cli, sources)
    return accept(undefined)
  } finally {
    sources.close()
    await store.value.close()
  }
}

async function serveUntilStopped(cli: Cli, { changed }: ReturnType<typeof watchSources>): Promise<void> {
  const { terminal, isJson } = cli
  const stopped = stopRequest(terminal.stop).then(() => 'stop' as const)
  // The next process loads the program while the present one serves.
  let next = startChild(cli)
  for (let file: string | undefined; !terminal.stop.aborted; ) {
    const child = next
    const ended = once(child, 'exit')
    const beganAt = performance.now()
    child.send('start')
    const answer = await Promise.race([
      once(child, 'message').then(([message]) => message as DevAnswer),
      ended.then(() => undefined),
      stopped.then(() => undefined),
    ])
    showAnswer(cli, answer, file, Math.round(performance.now() - beganAt))
    next = startChild(cli)
    const change = changed()
    let seen = await Promise.race([change, stopped, ended.then(() => 'ended' as const)])
    if (seen === 'ended') {
      if (answer?.ok && !isJson()) terminal.err('The program ended. A change restarts it.\n')
      seen = await Promise.race([change, stopped])
    }
    if (seen === 'stop' && !isJson()) terminal.err('stopping\n')
    await stopChild(child)
    file = seen === 'stop' ? undefined : seen.file
  }
  await stopChild(next)
}

function showAnswer(
  { terminal, isJson }: Cli,
  answer: DevAnswer | undefined,
  file: string | undefined,
  ms: number,
): void {
  if (answer?.ok === false) {
    showRefusal(terminal, answer, isJson())
    if (!isJson()) terminal.err('A change starts it again.\n')
  } else if (answer?.ok && (file === undefined || isJson())) announce(terminal, answer.value, isJson())
  else if (answer?.ok) terminal.out(`${file} changed: restarted in ${ms} ms\n`)
}

/** In a process group of its own, so that Ctrl-C reaches it once, through this process. */
function startChild({ terminal }: Cli): ChildProcess {
  return fork(fileURLToPath(new URL(`./dev-child${extname(import.meta.url)}`, import.meta.url)), {
    cwd: terminal.folder,
    env: terminal.environment,
    execArgv: process.execArgv,
    detached: true,
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
}

/** After this time it ends at once. The next start recovers the running work. */
const STOP_MS = 1_000

async function stopChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  const late = new AbortController()
  void setTimeout(STOP_MS, undefined, { signal: late.signal }).then(
    () => child.kill('SIGKILL'),
    () => undefined,
  )
  await ended
  late.abort()
}
