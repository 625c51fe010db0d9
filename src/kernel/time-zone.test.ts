import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseTimeZone } from './cron.ts'

describe('time zone', () => {
  for (const name of [
    'UTC',
    'Europe/Berlin',
    'America/Argentina/Buenos_Aires',
    'EST5EDT',
    'Etc/GMT+5',
    'Asia/Kolkata',
  ]) {
    test(`takes ${name}`, () => assert.deepEqual(parseTimeZone(name), { ok: true, value: name }))
  }
  for (const name of [
    '',
    'Mars/Base',
    'EST5EDT+',
    '+02:00',
    '-05',
    'local',
    'Europe/Berlin ',
    'Europe',
    '../UTC',
    'x'.repeat(1_000_000),
  ]) {
    test(`refuses ${JSON.stringify(name.slice(0, 20))}`, () => {
      const decision = parseTimeZone(name)
      assert.equal(!decision.ok && decision.code, 'timezone_unknown')
    })
  }
})
