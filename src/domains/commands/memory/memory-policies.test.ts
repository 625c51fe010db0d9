import assert from 'node:assert/strict'
import { test } from 'node:test'
import { semanticQueues } from '#runtime'
import type { Definition } from '../catalog/definitions.ts'
import { defineEffect } from '../catalog/effect-definition.ts'
import { anyHost, openCatalog } from '../catalog/open-catalog.ts'
import { shippedPolicies } from '../catalog/shipped-policies.ts'
import { shippedSchedulesFor } from '../scheduled-commands.ts'
import { decideProposal } from './memory-requests.ts'
import { memoryTypeDefinitions } from './memory-definitions.ts'
import { memoryPolicies } from './memory-policies.ts'

const answer = (name: string, facts: object) => {
  const rule = memoryPolicies.find((each) => each.rule.name === name)?.rule
  return rule?.decide({ action: 'write_memory', command: {}, task: {}, context: { facts } })?.decision
}

test('[MEM-13] the rules follow the assessment, and deny without one', () => {
  const decisions = ['write', 'known', 'ask', 'reject', undefined, 'nonsense']
  assert.deepEqual(
    decisions.map((decision) => answer('memory_write', { memory_write: { decision, reasons: ['because'] } })),
    ['allow', 'allow', 'require_approval', 'deny', 'deny', 'deny'],
  )
  assert.equal(answer('memory_write', {}), 'deny')
})

test('[MEM-19] data safety is checked before every memory write', () => {
  const classes = ['public', 'internal', 'confidential', 'pii', 'payment', 'secret', undefined]
  assert.deepEqual(
    classes.map((sensitivity) => answer('memory_data_safety', { memory_write: { sensitivity } })),
    ['allow', 'allow', 'require_approval', 'require_approval', 'require_approval', 'deny', 'deny'],
  )
  const type = memoryTypeDefinitions.find((each) => each.kind === 'command_type' && each.name === 'write_memory')
  assert.ok(type?.kind === 'command_type')
  for (const policy of ['permission', 'data_safety', 'memory_data_safety', 'memory_consent', 'memory_write'])
    assert.ok(type.policies.includes(policy), policy)
})

test('a subject on hold, or an unknown one, is not forgotten', () => {
  const holds = [0, 1, null, undefined]
  assert.deepEqual(
    holds.map((memory_holds) => answer('memory_forget', { memory_holds })),
    ['allow', 'deny', 'deny', 'deny'],
  )
})

test('[SCD-04] the daily review: memory defines its command, which enables the schedule', () => {
  const effects: Definition[] = ['memory.write', 'memory.erase', 'memory.review'].map((effect_type) =>
    defineEffect({ effect_type, class: 'keyed', do: async () => ({}) }),
  )
  const all = [...shippedPolicies, ...memoryPolicies, ...memoryTypeDefinitions, ...effects]
  const opened = openCatalog([...all, ...shippedSchedulesFor(all)], { ...anyHost, queues: Object.keys(semanticQueues) })
  assert.ok(opened.ok, opened.ok ? '' : opened.reason)
  const review = { name: 'memory_decay_review', command_type: 'review_stale_memory', cron: '0 3 * * *' }
  assert.deepEqual(opened.value.schedules, [{ ...review, queue: 'scheduled_maintenance' }])
  const task = opened.value.taskOfType.get('review_stale_memory')?.spec
  assert.ok(task?.name === 'Review Stale Memory' && task.ingress_types.includes('scheduled_trigger'))
})

test('[MEM-14] [MEM-16] a run proposes only about its own subject, in its own types and schemas', () => {
  const scope = {
    subject_type: 'customer',
    subject_id: '1',
    allowed_memory_types: ['preference' as const],
    allow_semantic_retrieval: false,
    max_results: 5,
    read: [],
    write: ['customer.notes'],
  }
  const memory = {
    subject_type: 'customer',
    subject_id: '1',
    scope: 'user',
    memory_type: 'preference',
    content: { a: 1 },
  } as const
  assert.equal(decideProposal(scope, memory).ok, true)
  assert.equal(decideProposal(scope, { ...memory, schema_name: 'customer.notes' }).ok, true)
  for (const [change, path] of [
    [{ subject_id: '2' }, 'subject'],
    [{ memory_type: 'fact' as const }, 'memory_type'],
    [{ schema_name: 'customer.cards' }, 'schema_name'],
  ] as const) {
    const decided = decideProposal(scope, { ...memory, ...change })
    assert.ok(!decided.ok && decided.path === path)
  }
})
