/** `concord events tail`: follows the events of a workspace, from now or from a cursor, across reconnects. */
import type { Command } from 'commander'
import { accept, type Decision } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { type Client, openClient } from './client.ts'
import { shortJson } from './command-view.ts'
import { withHint } from './next-hint.ts'
import { readServerEvents, type ServerEvent } from './server-events.ts'
import { type Cli, colorsOf, type Terminal } from './terminal.ts'

const RECONNECT_MS = 1_000
/** The cursor before the first event. */
const FEED_START = 'start'

type TailOptions = { after?: string; fromStart?: boolean; type?: string; once?: boolean; skipArchived?: boolean }

export function addEvents(program: Command, cli: Cli): void {
  program
    .command('events')
    .description('what happened')
    .command('tail')
    .description('follow events as they are committed')
    .option('--from-start', 'begin with the first event of the workspace')
    .option('--after <cursor>', 'go on behind this cursor (`--json` shows one with every event)')
    .option('--type <type>', 'only events of this type')
    .option('--skip-archived', 'go on although events behind the cursor lie in the archive')
    .option('--once', 'stop when everything committed so far was shown')
    .addHelpText('after', '\nExample:\n  $ concord events tail --type status_changed\n')
    .action(
      cli.handle(async (options: TailOptions) => {
        const client = openClient(cli.terminal)
        if (!client.ok) return client
        return follow(cli.terminal, client.value, options, program.opts()['json'] === true)
      }),
    )
}

async function follow(
  terminal: Terminal,
  client: Client,
  options: TailOptions,
  json: boolean,
): Promise<Decision<undefined>> {
  let cursor = options.after ?? (options.fromStart === true ? FEED_START : undefined)
  for (let attempt = 0; !terminal.stop.aborted; attempt++) {
    const query = new URLSearchParams()
    if (cursor !== undefined) query.set('after', cursor)
    if (options.type !== undefined) query.set('type', options.type)
    if (options.once === true) query.set('until', 'now')
    if (options.skipArchived === true) query.set('archived', 'skip')
    const stream = await client.open(`/events?${query.toString()}`)
    if (!stream.ok) {
      if (terminal.stop.aborted) break
      if (attempt === 0 || stream.code !== 'app.server.unreachable') return withHint(stream, '/events')
      await pause(RECONNECT_MS, terminal.stop)
      continue
    }
    try {
      let isWhole = false
      for await (const event of readServerEvents(stream.value)) {
        if (event.id !== undefined) cursor = event.id
        if (event.type === 'end') isWhole = true
        else if (event.data !== '') show(terminal, event, json)
      }
      if (options.once === true && isWhole) return accept(undefined)
    } catch (error) {
      // A server that stops or restarts ends the stream; the cursor lets the next one go on without a gap.
      if (!terminal.stop.aborted && !json)
        terminal.err(`stream interrupted (${(error as Error).message}), reconnecting\n`)
    }
    await pause(RECONNECT_MS, terminal.stop)
  }
  return accept(undefined)
}

/** As wide as most types are: a stream does not know what is still to come. */
const TYPE_CHARS = 20

function show(terminal: Terminal, event: ServerEvent, json: boolean): void {
  if (json) return terminal.out(`${JSON.stringify({ cursor: event.id, ...(JSON.parse(event.data) as object) })}\n`)
  const color = colorsOf(terminal)
  const row = JSON.parse(event.data) as { event_type: string; actor: string; created_at: string; payload: unknown }
  terminal.out(
    `${color.dim(row.created_at)}  ${color.bold(showLine(row.event_type).padEnd(TYPE_CHARS))}  ${showLine(row.actor)}  ${color.dim(shortJson(row.payload))}\n`,
  )
}

function pause(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    stop.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true })
  })
}
