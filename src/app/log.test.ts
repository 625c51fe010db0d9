/** No secret reaches a log line, neither in a field of its own nor inside a text. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { openLog } from './log.ts'
import { redactText } from '#kernel/secret-shapes'

function linesOf(work: (log: ReturnType<typeof openLog>) => void): string {
  const lines: string[] = []
  work(openLog('trace', { write: (line: string) => void lines.push(line) }))
  return lines.join('')
}

const secret = () => randomBytes(24).toString('base64url')

/** Each plants one secret in a place where a careless caller might leave it. */
const plants: readonly ((value: string) => (log: ReturnType<typeof openLog>) => void)[] = [
  (value) => (log) => log.info({ password: value }, 'x'),
  (value) => (log) => log.info({ user: { token: value } }, 'x'),
  (value) => (log) => log.info({ request: { headers: { authorization: `Bearer ${value}` } } }, 'x'),
  (value) => (log) => log.info({}, `key ck_abcdef012345_${value} was used`),
  (value) => (log) => log.error({ err: new Error(`connect postgres://app:${value}@db:5432/x failed`) }, 'x'),
  (value) => (log) => log.warn({ note: `Authorization: Basic ${value}` }, 'x'),
  (value) => (log) => log.warn({ note: `sk-proj-${value}` }, 'x'),
  (value) => (log) => log.warn({ list: [`ghp_${value.replaceAll(/[-_]/g, 'a')}`] }, 'x'),
  (value) => (log) => log.warn({ deep: { api_key: value } }, 'x'),
  (value) => (log) => log.warn({ very: { deep: { and: [{ deeper: { password: { old: value } } }] } } }, 'x'),
  (value) => (log) => log.child({ secret: value }).warn({}, 'x'),
  (value) => (log) => log.warn({ jwt: `eyJhbGciOiJI.${value}.${value}` }, 'x'),
]

test('200 planted secrets, none of them in what was logged', () => {
  let found = 0
  for (let round = 0; round < 200; round++) {
    const value = secret()
    const plant = plants[round % plants.length]
    assert.ok(plant)
    const written = linesOf(plant(value))
    assert.notEqual(written, '')
    if (written.includes(value) || written.includes(value.replaceAll(/[-_]/g, 'a'))) found++
  }
  assert.equal(found, 0)
})

test('a planted secret is found when it has no shape and no name, so the test can fail', () => {
  const value = secret()
  assert.ok(linesOf((log) => log.info({ note: value }, 'x')).includes(value))
})

test('the visible part of a key stays, so that a person can tell which one it was', () => {
  assert.equal(redactText('ck_abcdef012345_AAAAAAAAAAAAAAAAAAAAAAAA'), 'ck_abcdef012345_[redacted]')
  assert.equal(redactText('postgres://app:hunter2@h/db'), 'postgres://app:[redacted]@h/db')
  assert.equal(redactText('plain text, nothing to hide'), 'plain text, nothing to hide')
})

test('a line stays one line of JSON', () => {
  const line = linesOf((log) => log.info({ url: 'postgres://a:b"c@h/d', token: 'x' }, 'say "hi"\nthere'))
  assert.equal(line.trim().split('\n').length, 1)
  assert.equal(JSON.parse(line).msg, 'say "hi"\nthere')
})
