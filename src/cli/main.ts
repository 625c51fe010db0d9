#!/usr/bin/env node
/** The `concord` program: binds the command tree to this process, its streams, its signals and its exit code. */
import { isatty } from 'node:tty'
import process from 'node:process'
import type { Terminal } from './terminal.ts'

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major < 24 || (major === 24 && minor < 12)) {
  process.stderr.write(
    `error Concord needs Node 24.12 or later. This is ${process.versions.node}.\n  next   Install Node 24, or run it through npm in a checkout, which includes Node.\n`,
  )
  process.exit(78)
}
// Loaded after the check, because an older Node fails at the first built-in module that it lacks.
const { runProgram } = await import('./program.ts')

const PARENT_LOOK_MS = 500
const stop = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    // The second signal exits immediately. The next start recovers the running work.
    if (stop.signal.aborted) process.exit(signal === 'SIGINT' ? 130 : 143)
    stop.abort(signal)
  })
}
// npm runs a script in a shell that does not pass signals on. The end of that shell is then the only sign of a stop.
if (process.env['npm_lifecycle_event'] !== undefined) {
  const parent = process.ppid
  setInterval(() => process.ppid === parent || stop.abort('SIGTERM'), PARENT_LOOK_MS).unref()
}
for (const stream of [process.stdout, process.stderr]) {
  // `concord events tail | head` closes the pipe: that is not an error.
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0)
    throw error
  })
}

const terminal: Terminal = {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  environment: process.env,
  folder: process.cwd(),
  isTty: isatty(1),
  stdin: () => process.stdin,
  stop: stop.signal,
}
process.exitCode = await runProgram(process.argv.slice(2), terminal)
