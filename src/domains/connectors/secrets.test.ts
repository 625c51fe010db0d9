/** References, their sources, what is removed from answers, and what templates fill in. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import type { JsonValue } from '#kernel/json-value'
import { fillTemplate } from './template.ts'
import { environmentSecrets, fileSecrets, openScrubber, openSecrets, parseSecretReference } from './secrets.ts'

test('[CON-09] env and file references resolve at the moment they are asked; nothing else is read', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'concord-secrets-'))
  await writeFile(join(folder, 'key'), 'file-secret\n')
  const environment: Record<string, string> = { KEY: 'first-value', SHORT: 'x' }
  const secrets = openSecrets({ env: environmentSecrets(environment), file: fileSecrets() })
  const ask = async (reference: string) => {
    const found = await secrets.resolve(reference)
    return found.ok ? found.value : found.code
  }
  assert.equal(await ask('env://KEY'), 'first-value')
  environment['KEY'] = 'second-value'
  assert.equal(await ask('env://KEY'), 'second-value')
  assert.equal(await ask(`file://${folder}/key`), 'file-secret')
  assert.equal(await ask(`file://${folder}/nothing`), 'connectors.secret.missing')
  assert.equal(await ask(`file://${folder}`), 'connectors.secret.unavailable')
  assert.equal(await ask('env://NOBODY'), 'connectors.secret.missing')
  assert.equal(await ask('env://toString'), 'connectors.secret.missing')
  assert.equal(await ask('env://SHORT'), 'connectors.secret.missing')
  assert.equal(await ask('vault://x'), 'connectors.secret.no_source')
  assert.equal(await ask('keyring://x'), 'connectors.secret.no_source')
  assert.equal(await ask('sk-live-0123456789'), 'connectors.secret.reference')
  const broken = openSecrets({ vault: () => Promise.reject(new Error('token canary-999 was refused')) })
  const answer = await broken.resolve('vault://x')
  assert.equal(answer.ok ? '' : answer.code, 'connectors.secret.unavailable')
  assert.doesNotMatch(JSON.stringify(answer), /canary/)
  await rm(folder, { recursive: true })
})

test('a refused reference is never shown: it may be the secret', () => {
  const refused = parseSecretReference('hunter2-hunter2')
  assert.doesNotMatch(JSON.stringify(refused), /hunter2/)
})

test('[SEC-06] a secret is removed wherever it stands, plain or encoded, alone or inside a longer text', () => {
  fc.assert(
    fc.property(
      fc.string({ minLength: 8, maxLength: 60, unit: 'binary-ascii' }),
      fc.string({ maxLength: 7 }),
      fc.string({ maxLength: 7 }),
      (secret, before, after) => {
        const scrubber = openScrubber()
        scrubber.learn(secret)
        const whole = `${before}${secret}${after}`
        const value: JsonValue = {
          plain: whole,
          list: [JSON.stringify(whole), encodeURIComponent(whole)],
          [`k${secret}`]: 1,
        }
        const text = JSON.stringify(scrubber.value(value))
        assert.ok(!text.includes(JSON.stringify(secret).slice(1, -1)))
        const hex = scrubber.text(Buffer.from(whole).toString('hex'))
        assert.ok(!hex.includes(Buffer.from(secret).toString('hex')))
        for (const encoding of ['base64', 'base64url'] as const) {
          const hidden = scrubber.text(Buffer.from(whole).toString(encoding))
          const left = Buffer.from(hidden.replaceAll('[secret]', ''), encoding).toString()
          assert.ok(!left.includes(secret))
        }
      },
    ),
  )
})

test('templates: a place alone keeps its type, inside a text it becomes text, and what is not known is refused', () => {
  const facts = { input: { id: 7, list: [{ a: 'x' }] }, output: { booking: { id: 'b1' } }, key: 'k:1' }
  const filled = fillTemplate(
    { a: '{input.id}', b: 'n{input.id}-{key}', c: ['{output.booking}'], d: '{input.list.0.a}', e: true },
    facts,
  )
  assert.deepEqual(filled.ok && filled.value, { a: 7, b: 'n7-k:1', c: [{ id: 'b1' }], d: 'x', e: true })
  for (const template of ['{output.nothing}', 'x{output.booking}', '{input.list.9.a}', '{input.__proto__}'])
    assert.equal(fillTemplate({ a: template }, facts).ok, false, template)
})
