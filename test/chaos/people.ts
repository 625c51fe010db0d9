/**
 * The people of a run. They submit and remember the answers; they decide approvals, cancel, retry, undo, and look into the provider's
 * book when a payment is in doubt.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { encodeId } from '#kernel/ids'
import type { Served } from '#test/concord-process'
import type { Chance } from '#test/chance'
import type { Installation } from './installation.ts'

/** `ok`: the answer was a success. `fail`: the answer was a failure. `info`: no clear answer. */
type Outcome = 'ok' | 'fail' | 'info'
export type Op = {
  readonly act: 'submit' | 'approve' | 'input' | 'cancel' | 'retry' | 'undo' | 'reconcile' | 'signal'
  readonly key: string
  readonly outcome: Outcome
  readonly status: number | null
  /** The command of an acknowledged submit. */
  readonly commandId?: string
}

export const stories = {
  pay: 'Pay',
  inline: 'Pay at once',
  agreed: 'Pay when agreed',
  told: 'Pay when told',
  signalled: 'Pay when signalled',
  stopped: 'Pay until stopped',
  again: 'Pay on the second run',
  undone: 'Pay and regret',
  crowd: 'Pay slowly',
  doubt: 'Pay in doubt',
  blind: 'Pay blindly',
  chain: 'Pay steadily',
  steady: 'Pay steadily',
} as const
export type Story = keyof typeof stories

export type People = {
  readonly history: readonly Op[]
  /** Sends all of them at once; settles when each has an answer or has failed. */
  ask(server: Served, story: Story, count: number, round: string): Promise<void>
  /** Repeats every request without a clear answer, with its key. */
  askAgain(server: Served): Promise<void>
  /** The server that gets the decisions; undefined when none is up. */
  face(server: Served | undefined): void
  leave(): Promise<void>
}

const PAUSE_MS = 100

export function invitePeople(installation: Installation, chance: Chance): People {
  const history: Op[] = []
  const asked = new Map<string, object>()
  /** Requests in flight: a person does not wait for one answer before the next request. */
  const busy = new Set<string>()
  let server: Served | undefined
  let isLeaving = false

  async function send(to: Served, path: string, key: string, body: object) {
    const answer = await fetch(`${to.address}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(30_000),
    }).catch(() => undefined)
    const told = answer && (await answer.json().catch(() => undefined))
    const status = answer && told !== undefined ? answer.status : null
    // A server error does not say whether the request took effect.
    const outcome: Outcome = status === null || status >= 500 ? 'info' : status < 300 ? 'ok' : 'fail'
    return { outcome, status, told: told as { command_id?: string } | undefined }
  }

  async function submit(to: Served, key: string, body: object): Promise<string | undefined> {
    asked.set(key, body)
    const { outcome, status, told } = await send(to, '/commands', await installation.asker(), {
      ...body,
      idempotency_key: key,
    })
    const commandId = outcome === 'ok' ? told?.command_id : undefined
    history.push({ act: 'submit', key, outcome, status, ...(commandId === undefined ? {} : { commandId }) })
    return commandId
  }

  async function act(name: Op['act'], path: string, who: string, id: string, body: object): Promise<void> {
    const to = server
    if (!to || busy.has(`${name} ${id}`)) return
    busy.add(`${name} ${id}`)
    const { outcome, status } = await send(to, path, who, body)
    busy.delete(`${name} ${id}`)
    history.push({ act: name, key: id, outcome, status })
  }

  async function lookAround(): Promise<void> {
    const due = await installation.db.query<Due>(dueActs)
    const [asker, answerer] = [await installation.asker(), await installation.answerer()]
    const book = due.some(({ act: name }) => name === 'reconcile') ? await installation.provider.book() : undefined
    void Promise.all(
      due.map(({ act: name, id, key }) => {
        const command = `/commands/${encodeId('command', id)}`
        switch (name) {
          case 'input':
            return act(name, `${command}/input`, asker, id, { input: { account: 'A-1' } })
          case 'cancel':
            return act(name, `${command}/cancel`, asker, id, { reason: 'stopped' })
          case 'undo':
            return act(name, `${command}/undo`, asker, id, { reason: 'regretted' })
          case 'retry':
            return act(name, `${command}/retry`, asker, id, {})
          case 'approve':
            return act(name, `/approvals/${encodeId('approval', id)}/resolve`, answerer, id, { decision: 'approved' })
          case 'signal':
            return act(name, '/signals', asker, id, signalOf(key))
          case 'reconcile': {
            const isPaid = (book?.paid[key] ?? 0) + (book?.undone[key] ?? 0) > 0
            const decision = { decision: isPaid ? 'approved' : 'rejected', reason: 'seen in the book' }
            return act(name, `/approvals/${encodeId('approval', id)}/resolve`, answerer, id, decision)
          }
        }
      }),
    )
  }

  const living = (async () => {
    while (!isLeaving) {
      if (server) await lookAround().catch(() => {})
      await sleep(PAUSE_MS)
    }
  })()

  return {
    history,
    async ask(to, story, count, round) {
      const keys = Array.from({ length: count }, (_, n) => `${round}-${story}-${n}`)
      const shared = String(chance.whole(1_000_000))
      await Promise.all(
        keys.map(async (key, n) => {
          const note = story === 'signalled' ? key : shared
          // Every other signal comes before its command, and some of them only then.
          if (story === 'signalled' && n % 2 === 0)
            await send(to, '/signals', await installation.asker(), signalOf(key))
          const first = await submit(to, key, { task_name: stories[story], payload: { note } })
          if (story === 'chain' && first !== undefined) {
            const body = { task_name: 'Pay steadily', payload: { note }, depends_on: [{ command_id: first }] }
            await submit(to, `${key}-child`, body)
          }
        }),
      )
    },
    async askAgain(to) {
      const clear = new Set(
        history.filter(({ act: name, outcome }) => name === 'submit' && outcome !== 'info').map(({ key }) => key),
      )
      await Promise.all([...asked].filter(([key]) => !clear.has(key)).map(([key, body]) => submit(to, key, body)))
    },
    face: (other) => void (server = other),
    async leave() {
      isLeaving = true
      await living
    },
  }
}

/** The same signal however often it is sent. */
const signalOf = (key: string) => ({ name: 'pay.agreed', key, id: `signal ${key}`, payload: { key } })

type Due = { readonly act: Exclude<Op['act'], 'submit'>; readonly id: string; readonly key: string }

/** The entries of the inbox and of the list of commands. */
export const dueActs = `
select 'approve' as act, a.approval_id as id, '' as key from concord.approvals as a where a.status = 'pending' and a.domain_effect_id is null
union all select 'reconcile', a.approval_id, e.idempotency_key from concord.approvals as a
  join concord.domain_effects as e on e.domain_effect_id = a.domain_effect_id where a.status = 'pending'
union all select 'input', c.command_id, '' from concord.commands as c where c.status = 'waiting_for_input'
union all select 'cancel', c.command_id, '' from concord.commands as c where c.task_name = 'Pay until stopped' and c.status = 'running'
  and exists (select from concord.domain_effects as e where e.command_id = c.command_id and e.effect_type = 'pay.held' and e.attempt > 0)
union all select 'undo', c.command_id, '' from concord.commands as c where c.task_name = 'Pay and regret' and c.status = 'succeeded'
  and not exists (select from concord.commands as u where u.contract_key = 'undo:cmd_' || replace(c.command_id::text, '-', '') and u.workspace_id = c.workspace_id)
union all select 'signal', w.domain_effect_id, w.key from concord.signal_waits as w where w.signal_id is null
union all select 'retry', c.command_id, '' from concord.commands as c where c.task_name = 'Pay on the second run' and c.status = 'failed' and c.attempt = 1
limit 64`
