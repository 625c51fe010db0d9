/** New commands for many callers in one commit: one command per key, a bad one fails alone, a lost connection repeats nothing. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openTestRoom, type TestRoom } from '#test/commands'
import type { Db } from '#store'
import { newEffect } from './change.ts'
import type { StoredCommand } from './command-table.ts'
import { type NewCommand, openInserts } from './insert-command.ts'

/**
 * A database whose dedicated connections fail on demand: they break after a commit and before its answer, or the server refuses a
 * statement.
 */
type FlakyDb = {
  readonly db: Db
  /** Commits the next statement whose name starts with this, then breaks the connection before the answer. */
  breakAfter(statementPrefix: string): void
  /** Answers the next statements whose name starts with this with the given SQLSTATE, the given number of times. */
  refuse(statementPrefix: string, sqlState: string, times?: number): void
  readonly broken: number
  readonly refused: number
}

function flakyDb(real: Db): FlakyDb {
  let armed: string | undefined
  let broken = 0
  let refusing = { prefix: '', sqlState: '', times: 0 }
  let refused = 0
  async function connect(applicationName?: string): ReturnType<Db['connect']> {
    const client = await real.connect(applicationName)
    const query = client.query.bind(client) as (...values: unknown[]) => Promise<unknown>
    // The overloads of the driver do not matter here: the arguments are passed on unchanged.
    client.query = (async (...values: unknown[]) => {
      const name = (values[0] as { name?: string }).name
      if (refusing.times > 0 && name?.startsWith(refusing.prefix) === true) {
        refusing.times -= 1
        refused += 1
        return query(`do $$ begin raise sqlstate '${refusing.sqlState}'; end $$`)
      }
      const answer = await query(...values)
      if (armed === undefined || name?.startsWith(armed) !== true) return answer
      armed = undefined
      broken += 1
      await client.end()
      throw new Error('Connection terminated unexpectedly')
    }) as typeof client.query
    return client
  }
  return {
    db: Object.assign(Object.create(real) as Db, { connect }),
    breakAfter(statementPrefix) {
      armed = statementPrefix
    },
    refuse(prefix, sqlState, times = 1) {
      refusing = { prefix, sqlState, times }
    },
    get refused() {
      return refused
    },
    get broken() {
      return broken
    },
  }
}

describe('inserting commands through the lane', () => {
  let room: TestRoom
  let sample: StoredCommand

  before(async () => {
    room = await openTestRoom()
    const id = await room.submit({ subject: 's' })
    const [row] = await room.rows<StoredCommand>('select * from concord.commands where command_id = $1', [id])
    assert.ok(row)
    sample = row
  })
  after(() => room.close())

  const aCommand = (key: string | null, changes: Partial<StoredCommand> = {}): NewCommand => {
    const command = {
      ...sample,
      command_id: room.clock.newId(),
      idempotency_key: key,
      request_fingerprint: key === null ? null : 'f',
      status: 'created' as const,
      turn_token: null,
      turn_until: null,
      ...changes,
    }
    const payload = { target_type: 'command', target_id: command.command_id }
    const events = [{ event_type: 'command_created' as const, payload, actor: 'user:1' }]
    return { command, turnMs: null, effects: [], events }
  }
  const open = (t: { after(close: () => Promise<void>): void }, db: Db = room.db) => {
    const inserts = openInserts({ db, newId: room.clock.newId })
    t.after(() => inserts.close())
    return inserts
  }
  const counted = async (where: string, value: unknown) => {
    const [row] = await room.rows(
      `select count(distinct c.command_id)::int as commands, count(e.event_id)::int as events
       from concord.commands c left join concord.domain_events e using (command_id) where ${where}`,
      [value],
    )
    return row
  }

  test('hundreds of commands, some keys used by twenty callers at once: one command and one event per key', async (t) => {
    const inserts = open(t)
    const keys = Array.from({ length: 30 }, (_, index) => `lane-${index}`)
    const calls = keys.flatMap((key, index) => Array.from({ length: index % 3 === 0 ? 20 : 1 }, () => key))
    const answers = await Promise.all(calls.map((key) => inserts.insert(aCommand(key))))
    assert.equal(answers.filter((answer) => answer.ok && answer.value.inserted).length, keys.length)
    for (const key of keys) assert.deepEqual(await counted('c.idempotency_key = $1', key), { commands: 1, events: 1 })
  })

  test('a batch of any size, with and without effects: every row with its own values, in order of arrival', async (t) => {
    const inserts = open(t)
    for (let size = 1; size <= 17; size++) {
      const items = Array.from({ length: size }, (_, index) => {
        const item = aCommand(null, { payload: { subject: `${size}/${index} "ü\\\\` } })
        const effect = newEffect({
          domain_effect_id: room.clock.newId(),
          effect_type: `effect.${size}.${index}`,
          effect_payload: {},
          idempotency_key: null,
          declaration_order: 0,
        })
        return size % 2 === 0 && index % 3 > 0 ? { ...item, effects: [effect] } : item
      })
      await Promise.all(items.map((item) => inserts.insert(item)))
      const stored = await room.rows(
        `select c.command_id, c.payload, j.created_at, array(select e.effect_type::text from concord.domain_effects as e where e.command_id = c.command_id) as effects
         from concord.commands as c join concord.journal as j using (command_id) where c.command_id = any($1::uuid[]) order by j.xid, j.seq`,
        [items.map(({ command }) => command.command_id)],
      )
      const sent = items.map(({ command: { command_id, payload, updated_at }, effects }) => ({
        command_id,
        payload,
        created_at: updated_at,
        effects: effects.map(({ effect_type }) => effect_type),
      }))
      assert.deepEqual(stored, sent)
    }
  })

  test('a command that the database refuses fails alone', async (t) => {
    const inserts = open(t)
    const items = Array.from({ length: 30 }, (_, index) =>
      aCommand(null, index === 11 ? { status: 'made_up' as never } : {}),
    )
    const answers = await Promise.allSettled(items.map((item) => inserts.insert(item)))
    const refused = answers.flatMap((answer, index) =>
      answer.status === 'rejected' ? [[index, answer.reason.constraint]] : [],
    )
    assert.deepEqual(refused, [[11, 'command_status_ck']])
  })

  test('a taken key whose command the server does not show takes nothing from the others', async (t) => {
    const flaky = flakyDb(room.db)
    const inserts = open(t, flaky.db)
    await open(t).insert(aCommand('taken-and-hidden'))
    const items = [aCommand(null), aCommand('taken-and-hidden'), aCommand('fresh-beside-it'), aCommand(null)]
    flaky.refuse('commands_find_by_keys', '57014')
    const answers = await Promise.allSettled(items.map((item) => inserts.insert(item)))
    assert.equal(flaky.refused, 1)
    assert.deepEqual(
      answers.map((answer) =>
        answer.status === 'rejected' ? answer.reason.code : answer.value.ok && answer.value.value.inserted,
      ),
      [true, '57014', true, true],
    )
  })

  for (const [size, key] of [
    [1, null],
    [1, 'broken-one'],
    [12, null],
  ] as const) {
    const what = key === null ? 'without keys' : 'with a key'
    test(`a batch of ${size} ${what} that was committed before its connection broke is there once`, async (t) => {
      const flaky = flakyDb(room.db)
      const inserts = open(t, flaky.db)
      const items = Array.from({ length: size }, () => aCommand(key))
      flaky.breakAfter('commands_insert')
      const answers = await Promise.all(items.map((item) => inserts.insert(item)))
      assert.equal(flaky.broken, 1)
      assert.equal(answers.filter((answer) => answer.ok && answer.value.inserted).length, size)
      const ids = items.map(({ command }) => command.command_id)
      assert.deepEqual(await counted('c.command_id = any($1::uuid[])', ids), { commands: size, events: size })
    })
  }
})
