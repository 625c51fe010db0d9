/** Tasks, schedules and operations in YAML: the examples load to the same objects as in code, and errors have code and place. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Decision } from '#kernel/refusal'
import { accepted } from '#test/tenant'
import { approvalTermsOf } from '../approval-types.ts'
import type { Definition } from '../catalog/definitions.ts'
import { mapTaskToPrimitives } from '../catalog/primitives.ts'
import { readYaml } from './read-yaml.ts'
import { loadDefinitions } from './load-definitions.ts'

const bytes = (text: string) => new TextEncoder().encode(text)
/** The definitions of one kind in a file. */
function loaded<K extends Definition['kind']>(kind: K, file: string, text: string) {
  return accepted(loadDefinitions(file, bytes(text))).flatMap(({ catalog }) =>
    catalog?.kind === kind ? [catalog as Extract<Definition, { kind: K }>] : [],
  )
}
const codeOf = (decision: Decision<unknown>) => (decision.ok ? 'ok' : decision.code)

const report = `task:
  name: Generate Report
  command_type: generate_report
  ingress_types: [user_request, scheduled_trigger]
  required_inputs: [report_type, date_range]
  execution:
    mode: async
    function_name: generate_report
  policies: [permission, cost, data_access]
  approval:
    required: false
  outputs:
    artifacts: [report]
    notifications: [app]
  risk_level: medium
  lifecycle: [created, validated, queued, running, succeeded]
`

test('[YML-01] [PRM-17] the report task loads to a TaskSpec with its exact primitives', () => {
  const [task] = loaded('task', 'report.yaml', report)
  assert.ok(task)
  const { spec } = task
  assert.deepEqual(
    [spec.name, spec.command_type, spec.function_name, spec.risk_level],
    ['Generate Report', 'generate_report', 'generate_report', 'medium'],
  )
  assert.deepEqual(spec.policy_checks, ['permission', 'cost', 'data_access'])
  assert.deepEqual(mapTaskToPrimitives(spec), [
    'ingress',
    'command',
    'context',
    'policy',
    'plan',
    'queue',
    'async_task',
    'artifact_write',
    'notification',
    'state_transition',
    'audit',
  ])
})

test('[YML-01] [YML-10] an illegal lifecycle and an unknown field are refused with their place', () => {
  const illegal = loadDefinitions('t.yaml', bytes(report.replace('queued, running', 'running, queued')))
  assert.ok(!illegal.ok)
  assert.deepEqual([illegal.path, illegal.facts], ['task.lifecycle', { file: 't.yaml', line: 16 }])
  const unknown = loadDefinitions('t.yaml', bytes(report.replace('policies:', 'polices:')))
  assert.ok(!unknown.ok)
  assert.deepEqual(
    [unknown.code, unknown.path, unknown.hint],
    ['unknown_field', 'task.polices', 'Did you mean `policies`?'],
  )
  assert.match(unknown.reason, /^t\.yaml:9: /)
  const nothing = loadDefinitions('t.yaml', bytes('name: x\n'))
  assert.ok(!nothing.ok)
  assert.deepEqual([nothing.code, nothing.path], ['commands.definition.invalid', 't.yaml'])
})

test('[D3] [M3] a command type and an approval type in YAML name the approver, the quorum and the rule for editors, and an impossible one is refused', () => {
  const type = (approval: string) => `name: pay
version: 1.0.0
description: Pays.
execution: { mode: async }
payload_schema: { type: object, additionalProperties: false }
approval: ${approval}
`
  const [pay] = loaded('command_type', 'p.yaml', type('{ approver: "role:finance", quorum: 2 }'))
  assert.deepEqual([pay?.approval.approver, pay?.approval.quorum, pay?.approval.required], ['role:finance', 2, false])
  const [lenient] = loaded('command_type', 'p.yaml', type('{ editor_may_approve: true }'))
  assert.deepEqual([pay?.approval.editor_may_approve, lenient?.approval.editor_may_approve], [undefined, true])
  const [fixed] = loaded('command_type', 'p.yaml', type('{ edits_allowed: false }'))
  assert.deepEqual(
    [pay, fixed].map((each) => each && approvalTermsOf(each).editsAllowed),
    [true, false],
  )
  const own = (quorum: string) => `name: pay_approval
version: 1.0.0
risk_level: high
quorum: ${quorum}
expiration: { default_minutes: 90 }
`
  const [made] = accepted(loadDefinitions('a.yaml', bytes(own('3'))))
  assert.equal(made?.approvalType?.quorum, 3)
  for (const quorum of ['0', '21', '1.5', 'two'])
    assert.equal(codeOf(loadDefinitions('a.yaml', bytes(own(quorum)))), 'commands.definition.invalid', quorum)
})

test('[YML-06] [SCD-01] schedules load with their queue, and an operation with its key template', () => {
  const file = `schedules:
  - { name: expire_pending_approvals, command_type: expire_approvals, cron: "*/5 * * * *", queue: scheduled_maintenance }
  - { name: sync_connector_metadata, command_type: sync_connector_metadata, cron: "0 * * * *", queue: scheduled_maintenance }
  - { name: memory_decay_review, command_type: review_stale_memory, cron: "0 3 * * *", queue: scheduled_maintenance }
`
  assert.deepEqual(
    loaded('schedule', 's.yaml', file).map(({ spec }) => [spec.name, spec.command_type, spec.cron, spec.queue]),
    [
      ['expire_pending_approvals', 'expire_approvals', '*/5 * * * *', 'scheduled_maintenance'],
      ['sync_connector_metadata', 'sync_connector_metadata', '0 * * * *', 'scheduled_maintenance'],
      ['memory_decay_review', 'review_stale_memory', '0 3 * * *', 'scheduled_maintenance'],
    ],
  )
  const [operation] = loaded(
    'connector_operation',
    'o.json',
    '{"connector":"hotel_booking","operation":"book_hotel","side_effect":true,"idempotency_required":true,"idempotency_key_template":"book_hotel:{booking_draft_id}","approval_required":true}',
  )
  assert.deepEqual(operation?.operation, {
    connector: 'hotel_booking',
    operation: 'book_hotel',
    side_effect: true,
    idempotency_required: true,
    idempotency_key_template: 'book_hotel:{booking_draft_id}',
    approval_required: true,
    output_trust: 'untrusted',
  })
})

test('[YML-10] invalid files are refused, each with its code, and none crashes the parser', () => {
  const laughs = [
    'a: &a [x, x, x, x, x, x, x, x, x]',
    ...Array.from(
      { length: 9 },
      (_, at) =>
        `${String.fromCharCode(98 + at)}: &${String.fromCharCode(98 + at)} [${Array(9)
          .fill(`*${String.fromCharCode(97 + at)}`)
          .join(', ')}]`,
    ),
  ]
  const cases: [string, string | Uint8Array, string][] = [
    ['tab', 'a:\n\tb: 1\n', 'yaml_syntax'],
    ['duplicate key', 'a: 1\na: 2\n', 'yaml_duplicate_key'],
    ['billion laughs', laughs.join('\n'), 'yaml_aliases'],
    ['brackets', `a: ${'['.repeat(10_000)}`, 'yaml_too_deep'],
    ['function tag', 'a: !!js/function "x"\n', 'yaml_tag'],
    ['custom tag', 'a: !mine 1\n', 'yaml_tag'],
    ['version 1.1', '%YAML 1.1\n---\na: yes\n', 'yaml_version'],
    ['two documents', 'a: 1\n---\nb: 2\n', 'yaml_one_document'],
    ['byte order mark', new Uint8Array([0xef, 0xbb, 0xbf, 0x61, 0x3a, 0x20, 0x31]), 'encoding'],
    ['UTF-16', new Uint8Array([0xff, 0xfe, 0x61, 0x00]), 'encoding'],
    ['not UTF-8', new Uint8Array([0x61, 0x3a, 0x20, 0xff]), 'encoding'],
    ['a list', '- 1\n', 'yaml_syntax'],
    ['empty', '', 'yaml_syntax'],
    ['forbidden key', '__proto__: 1\n', 'key_forbidden'],
  ]
  for (const [what, text, code] of cases)
    assert.equal(codeOf(readYaml('f.yaml', typeof text === 'string' ? bytes(text) : text)), code, what)
  const duplicate = readYaml('f.yaml', bytes('a: 1\nb: 2\na: 3\n'))
  assert.ok(!duplicate.ok)
  assert.deepEqual([duplicate.facts?.['line'], duplicate.path?.startsWith('f.yaml:3')], [3, true])
})

test('[YML-10] the Norway rule: 1.2 core only', () => {
  const read = readYaml('f.yaml', bytes('country: NO\non: yes\nat: 12:30:45\nmode: 0777\n'))
  assert.ok(read.ok)
  assert.deepEqual({ ...read.value.value }, { country: 'NO', on: 'yes', at: '12:30:45', mode: 777 })
})
