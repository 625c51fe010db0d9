import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { anyHost, openCatalog } from './catalog/open-catalog.ts'
import { defineSchedule } from './catalog/definitions.ts'
import { defineMaintenance, type MaintenanceType, shippedSchedulesFor } from './scheduled-commands.ts'
import { shippedPolicies } from './catalog/shipped-policies.ts'

const work = (command_type: MaintenanceType) =>
  defineMaintenance({
    command_type,
    task_name: `Do ${command_type}`,
    description: 'Keeps things in order.',
    run: () => Promise.resolve({ done: 1 }),
  })

const compiled = (...types: readonly MaintenanceType[]) => {
  const definitions = [...shippedPolicies, ...types.flatMap(work)]
  const catalog = openCatalog([...definitions, ...shippedSchedulesFor(definitions)], anyHost)
  assert.ok(catalog.ok, catalog.ok ? '' : catalog.reason)
  return catalog.value
}

describe('shipped schedules', () => {
  test('without its work a shipped schedule is not registered', () => {
    assert.deepEqual(compiled().schedules, [])
  })

  for (const [rows, name, type, cron] of [
    ['[SCD-02]', 'expire_pending_approvals', 'expire_approvals', '*/5 * * * *'],
    ['[SCD-03]', 'sync_connector_metadata', 'sync_connector_metadata', '0 * * * *'],
    ['[SCD-04]', 'memory_decay_review', 'review_stale_memory', '0 3 * * *'],
  ] as const)
    test(`${rows} ${name} comes with its work: ${type} at ${cron}`, () => {
      const { schedules, taskOfType } = compiled(type)
      assert.deepEqual(schedules, [{ name, command_type: type, cron, queue: 'scheduled_maintenance' }])
      const task = taskOfType.get(type)
      assert.deepEqual([task?.spec.ingress_types, task?.policyNames], [['scheduled_trigger'], ['permission']])
    })

  test('a project that names one itself has its own way', () => {
    const own = {
      name: 'memory_decay_review',
      command_type: 'review_stale_memory',
      cron: '0 5 * * *',
      queue: 'agent_runs',
    }
    const definitions = [...shippedPolicies, ...work('review_stale_memory'), defineSchedule(own)]
    assert.deepEqual(shippedSchedulesFor(definitions), [])
  })
})
