#!/usr/bin/env node
/** The `concord` program: binds the command tree to this process, its streams, its signals and its exit code. */
import module from 'node:module'
import { homedir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { isatty } from 'node:tty'
import type { Terminal } from './terminal.ts'

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
// A project that `init` creates brings its own Node, so `init` runs on an older one.
if ((major < 24 || (major === 24 && minor < 12)) && process.argv[2] !== 'init') {
  process.stderr.write(
    `error Concord needs Node 24.12 or later. This is ${process.versions.node}.\n  next   Install Node 24, or add it to the project: npm install --save-dev node@24\n`,
  )
  process.exit(78)
}
// In a folder of this user, because what is in the cache runs. Without it the modules of a checkout take 0.5 s.
module.enableCompileCache?.(join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'concord'))
const args = process.argv.slice(2)
// Loaded after the check, because an older Node fails at the first built-in module that it lacks.
if (args.length === 1 && /^(-v|--version)$/.test(args[0] ?? '')) {
  const { version } = await import('#app/version')
  process.stdout.write(`${version}\n`)
  process.exit(0)
}
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
  // The width changes when the window does.
  get columns() {
    return process.stdout.columns
  },
  now: () => new Date(),
  stdin: () => process.stdin,
  stop: stop.signal,
}
process.exitCode = await runProgram(args, terminal)
