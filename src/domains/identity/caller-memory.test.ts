/** What is remembered about callers, and for how long. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Principal } from '#kernel/actor'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Looked, openCallers } from './caller-memory.ts'

const principal = { userId: 'u', role: 'writer' } as Principal
const workspace = accept({ id: 'w' } as never)
const sources = {}

function aMemory(found: Partial<Looked> = {}) {
  let atMs = 1_000
  let looked: Decision<Looked> = accept({
    principal,
    workspace,
    access: { version: '7', leftMs: Number.POSITIVE_INFINITY },
    ...found,
  })
  const callers = openCallers(
    () => Promise.resolve(looked),
    () => atMs,
  )
  return {
    ...callers,
    travel: (ms: number) => void (atMs += ms),
    find: (next: Decision<Looked>) => void (looked = next),
  }
}
const asked = (bearer: string, role: 'reader' | 'writer' | 'admin' = 'writer') => ({ bearer, role, sources })

test('a caller is remembered for two seconds, with the version of the rights', async () => {
  const memory = aMemory()
  assert.equal(memory.recall(asked('k')), undefined)
  await memory.look(asked('k'))
  memory.travel(1_999)
  assert.equal(memory.recall(asked('k'))?.accessVersion, '7')
  memory.travel(1)
  assert.equal(memory.recall(asked('k')), undefined)
})

test('a key that expires sooner is forgotten at its time', async () => {
  const memory = aMemory({ access: { version: '7', leftMs: 300 } })
  await memory.look(asked('k'))
  memory.travel(299)
  assert.ok(memory.recall(asked('k')))
  memory.travel(1)
  assert.equal(memory.recall(asked('k')), undefined)
})

test('another key, another role and another workspace are other callers', async () => {
  const memory = aMemory()
  await memory.look(asked('k'))
  assert.equal(memory.recall(asked('other')), undefined)
  assert.equal(memory.recall(asked('k', 'reader')), undefined)
  assert.equal(memory.recall({ ...asked('k'), sources: { slugHeader: 'main' } }), undefined)
  assert.equal(memory.recall({ ...asked('k'), sources: { idHeader: '' } }), undefined)
})

test('a refusal is not remembered, and it replaces what was', async () => {
  const closed = refuse('workspace_unknown', 'no')
  for (const found of [{ workspace: closed }, { access: undefined }, { principal: { ...principal, role: 'reader' } }]) {
    const memory = aMemory(found as Partial<Looked>)
    await memory.look(asked('k'))
    assert.equal(memory.recall(asked('k')), undefined)
  }
  const memory = aMemory()
  await memory.look(asked('k'))
  memory.find(refuse('unauthenticated', 'no'))
  await memory.look(asked('k'))
  assert.equal(memory.recall(asked('k')), undefined)
})

test('at most a thousand callers are remembered, the latest ones', async () => {
  const memory = aMemory()
  for (let n = 0; n <= 1_000; n++) await memory.look(asked(`k${n}`))
  assert.equal(memory.recall(asked('k0')), undefined)
  assert.ok(memory.recall(asked('k1')))
  assert.ok(memory.recall(asked('k1000')))
})
