/**
 * The process that runs the command of one run. It survives the scheduler, so the output and the exit code do too: it writes the
 * log, waits for the command, and stores the outcome in a file before it ends. It leads the process group of the run, ignores the
 * signals that end the command, and kills what the command left in its group.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, fsyncSync, openSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { openRunLog, type RunLog } from './run-log.ts'
import { type CommandEnd, outcomeOfCommand, type RunOrder, type StoredEnd, withArtifacts } from './run-outcome.ts'

/** A process that moved to another group may hold the pipes open forever. */
const PIPES_MS = 1_000

/** Whether the run was ended from outside: then the exit code of the command says nothing about its work. */
let isSignalled = false
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'] as const)
  process.on(signal, () => {
    isSignalled = true
  })

/** A scheduler that dies while it writes the order has started nothing. */
async function readOrder(): Promise<RunOrder | undefined> {
  const chunks: Buffer[] = []
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer)
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8')) as RunOrder
  } catch {
    return undefined
  }
}

async function run(order: RunOrder): Promise<StoredEnd> {
  const log = openRunLog(order.logPath, order.logMaxBytes)
  const end = await runCommand(order, log)
  log.close()
  return { end: withArtifacts(outcomeOfCommand(order, end, log.lastLine()), order), isSignalled }
}

function runCommand({ command, args, cwd, environment, input }: RunOrder, log: RunLog): Promise<CommandEnd> {
  return new Promise((resolve) => {
    const fail = (startError: NodeJS.ErrnoException) => resolve({ exitCode: null, signal: null, startError })
    let child: ChildProcess
    try {
      child = spawn(command, args, { cwd, env: environment, stdio: ['pipe', 'pipe', 'pipe'], windowsHide: true })
    } catch (error) {
      return fail(error as NodeJS.ErrnoException)
    }
    child.once('error', (error) => {
      if (child.pid === undefined) fail(error)
    })
    // A job need not read its params, so a broken pipe is not an error.
    child.stdin?.on('error', () => {}).end(input)
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk: Buffer) => log.write(chunk))
    child.once('exit', (exitCode, signal) => {
      const over = () => resolve({ exitCode, signal, startError: null })
      child.once('close', over)
      // This program has no caller that could wait for it.
      AbortSignal.timeout(PIPES_MS).addEventListener('abort', over)
    })
  })
}

/** Atomic and on the disk when it returns. A full disk leaves the answer to the scheduler alone. */
function save(path: string, end: string): void {
  const part = `${path}.part`
  try {
    writeFileSync(part, end, { mode: 0o600, flush: true })
    renameSync(part, path)
    const folder = openSync(dirname(path), 'r')
    fsyncSync(folder)
    closeSync(folder)
  } catch {
    // The scheduler reads the answer below, unless it died too.
  }
}

/** A scheduler that has died finds the file when it starts again. */
function answer(end: string): Promise<void> {
  return new Promise((resolve) => {
    process.stdout.once('error', () => resolve())
    process.stdout.end(end, () => resolve())
  })
}

const order = await readOrder()
if (order) {
  const end = JSON.stringify(await run(order))
  save(order.endPath, end)
  await answer(end)
  process.kill(-process.pid, 'SIGKILL')
}
