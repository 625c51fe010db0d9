/** Held requests: what ends a wait, and what many of them cost. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { openTestRoom, type TestRoom } from '#test/commands'
import { openWaits } from './waits.ts'

const sleep = (ms: number, signal: AbortSignal) => pause(ms, undefined, { signal }).catch(() => {})
const never = () => new AbortController().signal

describe('waits', () => {
  let room: TestRoom
  before(async () => {
    room = await openTestRoom()
  })
  after(() => room.close())

  /** The waits of a process, and the number of statements that they have sent. */
  function open(closing = never(), fails = false) {
    const sent = { statements: 0 }
    const run = ((...asked: Parameters<typeof room.db.run>) => {
      sent.statements += 1
      return fails ? Promise.reject(new Error('The database is away.')) : room.db.run(...asked)
    }) as typeof room.db.run
    return { sent, ...openWaits({ db: { ...room.db, run }, sleep }, closing) }
  }

  test('1,000 held requests ask together', async () => {
    const ids = await Promise.all(Array.from({ length: 10 }, () => room.submit({ subject: 's', amount: 5 })))
    const { wait, sent } = open()
    const held = Array.from({ length: 1_000 }, (_, at) => wait(ids[at % 10] ?? '', 450, never()))
    await Promise.all(held)
    assert.ok(sent.statements >= 1 && sent.statements <= 4, `${sent.statements} statements`)
  })

  test('a wait ends with its command, its client, its server, and a database that cannot answer', async () => {
    const commandId = await room.submit({ subject: 's' })
    const ended = open().wait(commandId, 3_600_000, never())
    await room.settle(commandId)
    await ended
    const waiting = room.world.newId()
    const [client, server] = [new AbortController(), new AbortController()]
    const left = open().wait(waiting, 3_600_000, client.signal)
    client.abort()
    await left
    const stopped = open(server.signal).wait(waiting, 3_600_000, never())
    server.abort()
    await stopped
    await open(never(), true).wait(waiting, 3_600_000, never())
  })
})
