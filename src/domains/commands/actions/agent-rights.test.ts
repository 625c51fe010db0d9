/** An agent never has more rights than its requester, under any rule. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { z } from 'zod'
import { policyDecisions, riskLevels } from '#kernel/policy/policy'
import { accepted } from '#test/tenant'
import { defineCommandType, defineFunction, defineTask } from '../catalog/definitions.ts'
import { defineEffect } from '../catalog/effect-definition.ts'
import { anyHost, openCatalog } from '../catalog/open-catalog.ts'
import type { StoredCommand } from '../command-table.ts'
import { undoDefinitions } from '../undo-task.ts'
import { askPolicy } from '../intake.ts'
import { shippedPolicies } from '../catalog/shipped-policies.ts'

const rules = [...shippedPolicies.map(({ rule }) => rule.name), 'undo_scope']

/** One task for each rule, beside `permission`. */
const catalog = accepted(
  openCatalog(
    [
      ...shippedPolicies,
      ...undoDefinitions(() => assert.fail('no effect runs in this test')),
      defineEffect({ effect_type: 'work.x', class: 'read', do: () => Promise.resolve({}) }),
      defineFunction({ name: 'x', plan: () => [] }),
      defineCommandType({
        name: 'x',
        description: 'd',
        payload: z.looseObject({}),
        side_effects: ['work.x'],
        fields: { customer: 'pii' },
        error_classes: ['internal_error'],
        cancellable_by: ['requester'],
        audit: ['command_created'],
      }),
      ...rules.map((name) =>
        defineTask({
          name,
          description: 'd',
          command_type: 'x',
          function_name: 'x',
          ingress_types: ['user_request', 'agent_action'],
          async_required: true,
          policy_checks: name === 'permission' ? [name] : ['permission', name],
          metadata: { data_roles: ['finance'] },
        }),
      ),
      defineTask({
        name: 'tell',
        description: 'd',
        command_type: 'x',
        function_name: 'x',
        ingress_types: ['user_request', 'agent_action'],
        async_required: true,
        notification_required: true,
        policy_checks: ['permission', 'data_safety'],
      }),
    ],
    anyHost,
  ),
)

const asked = fc.record({
  rule: fc.constantFrom(...rules),
  role: fc.constantFrom('reader', 'writer', 'admin'),
  org_roles: fc.subarray(['finance', 'owner']),
  payload: fc.record(
    {
      destination: fc.constantFrom('internal', 'external:x', 'ada@example.com'),
      customer: fc.string(),
      estimated_cost_units: fc.integer({ min: -1, max: 200 }),
      payment_token: fc.constantFrom('', 'vault://x'),
      total_price: fc.constantFrom(20, 900),
    },
    { requiredKeys: [] },
  ),
  facts: fc.record({
    agent_scope: fc.constant(null),
    agent_standing: fc.constant(null),
    memory_consent: fc.boolean(),
    commands_last_hour: fc.constantFrom(0, 5_000),
    compensation_target: fc.constantFrom(
      null,
      { status: 'failed', requested_by: 'user:1', undoable: 2 },
      { status: 'failed', requested_by: 'user:2', undoable: 2 },
      { status: 'running', requested_by: 'user:1', undoable: 0 },
    ),
  }),
  claimed: fc.record(
    { risk_level: fc.constantFrom(...riskLevels, 'none'), reason: fc.string(), tool_name: fc.string() },
    { requiredKeys: [] },
  ),
})

test('[SEC-07] for every request and every rule, an agent never gets a milder decision than its requester', () => {
  fc.assert(
    fc.property(asked, ({ rule, role, org_roles, payload, facts, claimed }) => {
      const task = catalog.tasks.get(rule) ?? assert.fail(rule)
      const ask = (run_as: 'user' | 'agent', ingress: string, metadata: object) => {
        const context = { user_id: '1', run_as, metadata: { ...metadata, role, org_roles } }
        const command = { command_id: 'c', command_type: 'x', requested_by: 'user:1', ingress, payload, context }
        // Only the fields that the policy question uses.
        return policyDecisions.indexOf(askPolicy(task, command as unknown as StoredCommand, facts).result.decision)
      }
      assert.ok(ask('agent', 'agent_action', claimed) <= ask('user', 'user_request', {}))
    }),
    { numRuns: 2_000 },
  )
})

test('an agent that notifies somebody about a customer needs an approval, whatever destination it names', () => {
  const task = catalog.tasks.get('tell') ?? assert.fail()
  const decide = (run_as: 'user' | 'agent', payload: object) => {
    const context = { user_id: '1', run_as, metadata: { role: 'writer', org_roles: [] } }
    const command = {
      command_id: 'c',
      command_type: 'x',
      requested_by: 'user:1',
      ingress: 'agent_action',
      payload,
      context,
    }
    // Only the fields that the policy question uses.
    return askPolicy(task, command as unknown as StoredCommand, {
      agent_scope: null,
      agent_standing: null,
    }).result.decision
  }
  assert.equal(decide('agent', { customer: 'Ada', destination: 'internal' }), 'require_approval')
  assert.equal(decide('agent', { customer: 'Ada' }), 'require_approval')
  assert.equal(decide('agent', { note: 'n' }), 'allow')
  assert.equal(decide('user', { customer: 'Ada', destination: 'internal' }), 'allow')
})
