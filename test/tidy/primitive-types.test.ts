import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { openMetrics } from '#app/metrics'
import { builtInArtifactTypes } from '#domains/artifacts'
import { judgmentTypes, knowledgeTypes, observabilityTypes, type OnRecord, shippedPolicies } from '#domains/commands'
import { allMachines } from '#kernel/machines/index'
import { tablesOf } from './absent.ts'
import { gatherEventNames } from './event-names.ts'
import { readTree } from './tree.ts'

const tree = readTree()
const dump = tree.get('src/store/schema.sql') ?? ''
const events = new Set(Object.values(gatherEventNames(tree, allMachines)).flat())
const [, purposes = ''] =
  /create domain concord\.event_purpose as text constraint \w+ CHECK \(\((.*)\)\);/.exec(dump) ?? []

/** What it needs to be on record is really there: else the name is only a word. */
async function isOnRecord(where: OnRecord): Promise<boolean> {
  if ('machine' in where) {
    const machine = allMachines.find(({ name }) => name === where.machine)
    return machine !== undefined && (where.state === undefined || Object.hasOwn(machine.states, where.state))
  }
  if ('event' in where) return events.has(where.event)
  if ('purpose' in where) return purposes.includes(`'${where.purpose}'`)
  if ('artifactType' in where) return builtInArtifactTypes.some(({ name }) => name === where.artifactType)
  if ('policy' in where) return shippedPolicies.some((each) => JSON.stringify(each).includes(`"${where.policy}"`))
  if ('column' in where) {
    const at = where.column.lastIndexOf('.')
    return (
      tablesOf(dump)
        .get(where.column.slice(0, at))
        ?.includes(where.column.slice(at + 1)) ?? false
    )
  }
  const metrics = openMetrics(resourceFromAttributes({}))
  const text = await metrics.render()
  await metrics.close()
  return text.includes(`\n${where.metricPrefix}`)
}

describe('types of primitives', () => {
  test('a type that stands nowhere on record is found', async () => {
    for (const nowhere of [
      { machine: 'approval', state: 'overruled' },
      { machine: 'verdict' },
      { event: 'verdict_given' },
      { artifactType: 'verdict' },
      { policy: 'verdict' },
      { column: 'concord.approvals.verdict' },
      { metricPrefix: 'verdicts_' },
    ])
      assert.equal(await isOnRecord(nowhere), false, JSON.stringify(nowhere))
  })

  for (const [family, types, names] of [
    [
      'human judgment',
      judgmentTypes,
      ['approval', 'rejection', 'change_request', 'input_request', 'override', 'escalation', 'review'],
    ],
    [
      'knowledge and output',
      knowledgeTypes,
      ['memory_record', 'memory_candidate', 'artifact', 'lineage_link', 'evaluation_result'],
    ],
    [
      'observability',
      observabilityTypes,
      ['audit_event', 'domain_event', 'agent_step', 'metric', 'cost_record', 'data_safety_decision'],
    ],
  ] as const)
    test(`[PRM-22] ${family}: each has a type, and each type stands on record`, async () => {
      assert.deepEqual(Object.keys(types), names)
      for (const [name, where] of Object.entries<OnRecord>(types)) assert.ok(await isOnRecord(where), name)
    })
})
