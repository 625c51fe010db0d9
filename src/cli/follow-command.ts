/** Polls a command until it ends or waits for people, or until the timeout. Reports every new status. */
import { setTimeout as pause } from 'node:timers/promises'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { kindOf } from '#refusals'
import { openClient } from './client.ts'
import { type CommandView, isAtRest, titleOf, sayStatus } from './command-view.ts'
import { withHint } from './next-hint.ts'
import type { Terminal } from './terminal.ts'

const POLL_FIRST_MS = 100
/** 30 requests a minute, of the 6,000 that a key has. */
const POLL_LAST_MS = 2_000

type Follow = {
  readonly commandId: string
  readonly timeoutMs: number
  readonly onStatus: (command: CommandView) => void
}

export async function followCommand(terminal: Terminal, follow: Follow): Promise<Decision<CommandView>> {
  const { commandId, timeoutMs, onStatus } = follow
  const stop = AbortSignal.any([terminal.stop, AbortSignal.timeout(timeoutMs)])
  const client = openClient({ ...terminal, stop })
  if (!client.ok) return client
  const ask = () =>
    client.value
      .call<CommandView>('GET', `/commands/${commandId}`)
      // The answer was cut off: the timeout ended, or the server stopped.
      .catch((error: unknown): Refusal => refuse('app.server.unreachable', String(error)))
  let last: string | undefined
  for (let waitMs = POLL_FIRST_MS; ; waitMs = Math.min(waitMs * 1.5, POLL_LAST_MS)) {
    const answer = await ask()
    if (answer.ok) {
      const { status } = answer.value
      if (status !== last) {
        onStatus(answer.value)
        waitMs = POLL_FIRST_MS
      }
      last = status
      if (isAtRest(answer.value)) return answer
    } else if (!stop.aborted && !isPassing(answer)) return withHint(answer, '/commands')
    await pause(waitMs, undefined, { signal: stop }).catch(() => undefined)
    if (stop.aborted) return waitEnded(follow, last, terminal.stop.aborted)
  }
}

/** Returns whether the refusal is temporary. A restarting server does not end the wait. */
function isPassing(refusal: Refusal): boolean {
  const kind = kindOf(refusal.code)
  return (kind === 'unavailable' && refusal.code !== 'app.server.version') || kind === 'rate' || kind === 'timeout'
}

function waitEnded({ commandId, timeoutMs }: Follow, last: string | undefined, isStopped: boolean): Refusal {
  const status = last === undefined ? 'the server did not answer' : `the command ${sayStatus(last)}`
  const why = isStopped ? 'The wait was stopped' : `The wait ended after ${timeoutMs} ms`
  return refuse('cli.wait.ended', `${why}, and ${status}. The command continues.`, {
    hint: `\`concord commands show ${commandId}\` shows its status; --timeout sets how long to wait.`,
    facts: { command_id: commandId, status: last ?? null },
  })
}

/** Accepts success only: `concord submit … --wait && next` must not continue while people still have to decide. */
export function judgeRest(command: CommandView): Decision<undefined> {
  const { command_id: id, status, error, error_class, next } = command
  if (status === 'succeeded') return accept(undefined)
  const facts = { command_id: id, status, error_class }
  const reason = `${titleOf(command)} ${sayStatus(status)}${error === null ? '' : `: ${error}`}`
  if (status === 'waiting_for_input') {
    const hint = `\`concord why ${id}\` shows what is missing; \`concord commands input ${id} --payload '{…}'\` supplies it.`
    return refuse('cli.command.waiting', reason, { hint, facts })
  }
  const stopped = next.find(({ action }) => action === 'lift_stop')
  if (stopped) {
    const hint = '`concord stop` lists the stops in force; `concord stop --lift <id> --reason "…"` lifts one.'
    return refuse('cli.command.waiting', `${titleOf(command)} ${sayStatus(status)}. ${stopped.what}`, { hint, facts })
  }
  if (status === 'waiting_for_approval' || status === 'blocked') {
    const asked = status === 'blocked' ? next.filter(({ action }) => action === 'decide_approval') : []
    const who = asked.map(({ by, what }) => `${what} (${by.join(', ')})`)
    const how = `\`concord why ${id}\` shows who is asked; they answer with \`concord approve\` or \`concord deny\`.`
    const hint = [...who, how].join('\n')
    return refuse('cli.command.waiting', reason, { hint, facts })
  }
  const again = next.some(({ action }) => action === 'retry') ? `; \`concord retry ${id}\` runs it again` : ''
  return refuse('cli.command.not_succeeded', reason, {
    hint: `\`concord why ${id}\` explains why${again}.`,
    facts,
  })
}
