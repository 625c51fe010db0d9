/** `concord events tail`: follows the events of a workspace, from now or from a cursor, and reconnects. */
import { accept, type Decision } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { type Client, openClient } from './client.ts'
import { actorOf, type ToldEvent, sayEvent } from './event-sentence.ts'
import { wrap } from './layout.ts'
import { findNames } from './names.ts'
import { withHint } from './next-hint.ts'
import { action, noun } from './noun.ts'
import { type Cli, colorsOf, type Terminal } from './terminal.ts'
import { sayClock } from './times.ts'
import { readServerEvents, type ServerEvent } from '#client'

const RECONNECT_MS = 1_000
/** The cursor before the first event. */
const FEED_START = 'start'

type Tell = (event: ServerEvent) => Promise<void>
type TailOptions = {
  after?: string
  fromStart?: boolean
  type?: string
  command?: string
  once?: boolean
  skipArchived?: boolean
}

export const events = noun('follow events', (cli) => ({
  tail: action({
    description: 'print one sentence for each event as it is committed; with --json one line of JSON',
    options: [
      ['--from-start', 'start with the first event of the workspace'],
      ['--after <cursor>', 'continue after this cursor (`--json` shows one with every event)'],
      ['--type <type>', 'only events of this type'],
      ['--command <id>', 'only events of this command'],
      ['--skip-archived', 'continue although events after the cursor are in the archive'],
      ['--once', 'stop after all events committed so far'],
    ],
    examples: [
      'concord events tail --type status_changed',
      'concord events tail --from-start --command cmd_0197f3b2c4d57a8e9b0c1d2e3f405170',
    ],
    async run(options: TailOptions) {
      const client = openClient(cli.terminal)
      return client.ok ? follow(cli, client.value, options) : client
    },
  }),
}))

async function follow(cli: Cli, client: Client, options: TailOptions): Promise<Decision<undefined>> {
  const { terminal } = cli
  const json = cli.isJson()
  const tell = json ? printJson(terminal) : openSentences(cli, options.command === undefined)
  let cursor = options.after ?? (options.fromStart === true ? FEED_START : undefined)
  for (let attempt = 0; !terminal.stop.aborted; attempt++) {
    const query = new URLSearchParams()
    if (cursor !== undefined) query.set('after', cursor)
    if (options.type !== undefined) query.set('type', options.type)
    if (options.command !== undefined) query.set('command_id', options.command)
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
        else if (event.data !== '') await tell(event)
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

function printJson({ out }: Terminal): Tell {
  return ({ id, data }) => {
    out(`${JSON.stringify({ cursor: id, ...(JSON.parse(data) as object) })}\n`)
    return Promise.resolve()
  }
}

/** Keeps the names of people and the tasks of commands that it has met. */
function openSentences(cli: Cli, withCommand: boolean): Tell {
  const { terminal } = cli
  let last: string | null = null
  const [people, tasks] = [new Map<string, string>(), new Map<string | null, string>()]
  const clock = (instant: string) => sayClock(terminal, instant)
  return async ({ data }) => {
    const event = JSON.parse(data) as ToldEvent
    const { command_id: id, payload } = event
    if (event.event_type === 'command_created')
      tasks.set(id, showLine(String(payload['task_name'] ?? payload['command_type'])))
    const nameOf = await findNames(cli, [actorOf(event.actor), actorOf(payload['approver'])], people)
    const who = (actor: unknown) => nameOf(actorOf(actor))
    const sentence = sayEvent(event, { task: tasks.get(id) ?? 'The command', who, clock })
    const at = clock(event.created_at)
    // The id is shown where it changes: events of one command mostly come together.
    const shown = [sentence, withCommand && id !== last ? id : null].filter(Boolean).join('  ')
    last = id
    const lines = wrap(shown, (terminal.columns ?? Number.POSITIVE_INFINITY) - at.length - 2)
    const { dim } = colorsOf(terminal)
    terminal.out(`${dim(at)}  ${lines.join(`\n${' '.repeat(at.length + 2)}`)}\n`)
  }
}

function pause(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    stop.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true })
  })
}
