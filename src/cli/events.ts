/** `concord events tail`: follows the events of a workspace, from now or from a cursor, and reconnects. */
import { accept, type Decision } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { type Client, openClient } from './client.ts'
import { withHint } from './next-hint.ts'
import { action, noun } from './noun.ts'
import { colorsOf, shortJson, type Terminal } from './terminal.ts'
import { readServerEvents, type ServerEvent } from '#client'

const RECONNECT_MS = 1_000
/** The cursor before the first event. */
const FEED_START = 'start'

type TailOptions = { after?: string; fromStart?: boolean; type?: string; once?: boolean; skipArchived?: boolean }

export const events = noun('follow events', (cli) => ({
  tail: action({
    description: 'print events as they are committed',
    options: [
      ['--from-start', 'start with the first event of the workspace'],
      ['--after <cursor>', 'continue after this cursor (`--json` shows one with every event)'],
      ['--type <type>', 'only events of this type'],
      ['--skip-archived', 'continue although events after the cursor are in the archive'],
      ['--once', 'stop after all events committed so far'],
    ],
    examples: ['concord events tail --type status_changed'],
    async run(options: TailOptions) {
      const client = openClient(cli.terminal)
      return client.ok ? follow(cli.terminal, client.value, options, cli.isJson()) : client
    },
  }),
}))

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
      // A server that stops or restarts ends the stream; the cursor continues it without a gap.
      if (!terminal.stop.aborted && !json)
        terminal.err(`stream interrupted (${(error as Error).message}), reconnecting\n`)
    }
    await pause(RECONNECT_MS, terminal.stop)
  }
  return accept(undefined)
}

/** As wide as most types: a stream cannot know the widest in advance. */
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
