import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { joinStrategies } from '../machines/agent.ts'
import { swarmModes, type JoinStrategyName, joinsOfMode } from './swarm-mode.ts'
import { joinSwarm } from './join.ts'
import type { JoinEvaluation, JoinInput, JoinStep, JoinWorker } from './join-input.ts'

const settings = { needed: null, threshold: 0.5, candidates: 2, share: 1, reduce: 'list' } as const

function aWorker(id: string, change: Partial<JoinWorker> = {}): JoinWorker {
  const artifacts = [{ artifactId: `art-${id}`, artifactType: 'analysis', contentHash: `hash-${id}` }]
  return {
    agentRunId: id,
    status: 'succeeded',
    endedAt: `2026-01-01T00:00:0${id}Z`,
    isRequired: true,
    part: id,
    artifacts,
    ...change,
  }
}
const working = { status: null, endedAt: null, artifacts: [] }
const failed = { status: 'failed', artifacts: [] } as const

function join(strategy: JoinStrategyName, workers: readonly JoinWorker[], more: Partial<JoinInput> = {}): JoinStep {
  const input: JoinInput = {
    workers,
    evaluations: [],
    haveJudgesEnded: false,
    synthesis: null,
    review: null,
    settings,
    ...more,
  }
  return joinSwarm(strategy, input)
}
function resultOf(step: JoinStep) {
  assert.ok(step.kind === 'joined', step.kind)
  return { ...step.result, losers: step.losers }
}
const says = (subjectId: string, confidence: number, by = 'j1', decision = 'pass'): JoinEvaluation => ({
  subjectId,
  by,
  decision,
  confidence,
})

test('[SWM-11] there are ten strategies and no other', () => {
  assert.deepEqual([...joinStrategies].sort(), [
    'all_success',
    'best_of_n',
    'consensus',
    'coordinator_synthesis',
    'evaluator_selection',
    'first_success',
    'human_review',
    'map_reduce',
    'quorum',
    'ranked_review',
  ])
  for (const strategy of joinStrategies) assert.equal(join(strategy, [aWorker('1', working)]).kind, 'wait')
})

test('[SWM-04] there are five modes; every join fits one of them, and each mode can be supervised by a person', () => {
  assert.deepEqual(swarmModes, ['sequential', 'parallel', 'competitive', 'review_driven', 'hierarchical'])
  const fitting = new Set(swarmModes.flatMap((mode) => joinsOfMode[mode]))
  assert.deepEqual([...fitting].sort(), [...joinStrategies].sort())
  for (const mode of swarmModes) assert.ok(joinsOfMode[mode].includes('human_review'))
})

test('[SWM-10] a join has five fields', () => {
  const step = join('all_success', [aWorker('1'), aWorker('2')])
  assert.deepEqual(step, {
    kind: 'joined',
    result: {
      decision: 'succeeded',
      summary: 'All required agents completed.',
      selected_artifact_id: 'art-2',
      confidence: 1,
      requires_human_review: false,
    },
    losers: [],
  })
})

test('[SWM-12] all_success: a required agent decides, an optional one makes it partial', () => {
  assert.equal(join('all_success', [aWorker('1'), aWorker('2', working)]).kind, 'wait')
  assert.equal(resultOf(join('all_success', [aWorker('1'), aWorker('2', failed)])).decision, 'failed')
  const partial = resultOf(join('all_success', [aWorker('1'), aWorker('2', { ...failed, isRequired: false })]))
  assert.deepEqual([partial.decision, partial.selected_artifact_id], ['partially_succeeded', 'art-1'])
  assert.equal(resultOf(join('all_success', [])).decision, 'failed')
})

test('[SWM-13] first_success: the first in time wins, all others lose, whether they work, failed or succeeded later', () => {
  const late = aWorker('1', { endedAt: '2026-01-01T00:00:09Z' })
  const won = resultOf(join('first_success', [late, aWorker('2'), aWorker('3', working), aWorker('4', failed)]))
  assert.deepEqual([won.decision, won.selected_artifact_id, won.losers], ['succeeded', 'art-2', ['1', '3', '4']])
  assert.equal(join('first_success', [aWorker('1', failed), aWorker('2', working)]).kind, 'wait')
  assert.equal(resultOf(join('first_success', [aWorker('1', failed)])).decision, 'failed')
})

test('[SWM-13] quorum: more than half unless a number is set; ends as soon as it is reached or out of reach', () => {
  const three = [aWorker('1'), aWorker('2'), aWorker('3', working)]
  assert.deepEqual(resultOf(join('quorum', three)).losers, ['3'])
  assert.equal(join('quorum', three, { settings: { ...settings, needed: 3 } }).kind, 'wait')
  const lost = [aWorker('1', failed), aWorker('2', failed), aWorker('3', working)]
  assert.equal(resultOf(join('quorum', lost)).decision, 'failed')
})

test('coordinator_synthesis: the coordinator writes one artifact from those of the agents', () => {
  const two = [aWorker('1'), aWorker('2', failed)]
  assert.deepEqual(join('coordinator_synthesis', two), { kind: 'ask', whom: 'coordinator' })
  const synthesis = { artifactId: 'art-9', artifactType: 'final_report', contentHash: 'h' }
  const result = resultOf(join('coordinator_synthesis', two, { synthesis }))
  assert.deepEqual([result.decision, result.selected_artifact_id], ['partially_succeeded', 'art-9'])
  assert.equal(resultOf(join('coordinator_synthesis', [aWorker('1')], { synthesis })).decision, 'succeeded')
  assert.equal(resultOf(join('coordinator_synthesis', two, { synthesis: 'none' })).decision, 'failed')
  assert.equal(resultOf(join('coordinator_synthesis', [aWorker('1', failed)])).decision, 'failed')
})

test('[SWM-15] evaluator_selection: the best above the threshold; a candidate that a judge does not pass is out', () => {
  const two = [aWorker('1'), aWorker('2')]
  assert.deepEqual(join('evaluator_selection', two), { kind: 'ask', whom: 'judges' })
  const judged = (...evaluations: JoinEvaluation[]) =>
    resultOf(join('evaluator_selection', two, { evaluations, haveJudgesEnded: true }))
  const best = judged(says('art-1', 0.7), says('art-2', 0.9))
  assert.deepEqual([best.selected_artifact_id, best.confidence, best.losers], ['art-2', 0.9, ['1']])
  assert.equal(judged(says('art-1', 0.7), says('art-2', 0.9, 'j1', 'fail')).selected_artifact_id, 'art-1')
  assert.equal(judged(says('art-1', 0.4)).decision, 'failed')
  assert.equal(judged().decision, 'failed')
})

test('[SWM-15] best_of_n: exactly n candidates are compared, fewer fail', () => {
  const evaluations = [says('art-1', 0.6), says('art-2', 0.7), says('art-3', 0.9)]
  const best = join('best_of_n', [aWorker('1'), aWorker('2'), aWorker('3')], { evaluations, haveJudgesEnded: true })
  assert.equal(resultOf(best).selected_artifact_id, 'art-2')
  assert.equal(resultOf(join('best_of_n', [aWorker('1'), aWorker('2', failed)])).decision, 'failed')
})

test('human_review: a person ends the join', () => {
  const one = [aWorker('1')]
  assert.deepEqual(join('human_review', one), { kind: 'ask', whom: 'person' })
  const yes = resultOf(join('human_review', one, { review: 'approved' }))
  assert.deepEqual([yes.decision, yes.selected_artifact_id, yes.requires_human_review], ['succeeded', 'art-1', true])
  const no = resultOf(join('human_review', one, { review: 'rejected' }))
  assert.deepEqual([no.decision, no.requires_human_review, no.losers], ['failed', true, ['1']])
})

test('[SWM-17] map_reduce: the parts are disjoint and complete, then put together', () => {
  const parts = [aWorker('1'), aWorker('2')]
  assert.deepEqual(join('map_reduce', parts), { kind: 'ask', whom: 'reducer' })
  const byAgent = { settings: { ...settings, reduce: 'coordinator' as const } }
  assert.deepEqual(join('map_reduce', parts, byAgent), { kind: 'ask', whom: 'coordinator' })
  assert.equal(resultOf(join('map_reduce', [aWorker('1'), aWorker('2', { part: '1' })])).decision, 'failed')
  assert.equal(resultOf(join('map_reduce', [aWorker('1'), aWorker('2', failed)])).decision, 'failed')
})

test('[SWM-17] consensus: equal content from all, or from the set share', () => {
  const same = { artifacts: [{ artifactId: 'art-0', artifactType: 'analysis', contentHash: 'hash-1' }] }
  const three = [aWorker('1'), aWorker('2', same), aWorker('3')]
  assert.equal(resultOf(join('consensus', three)).decision, 'failed')
  const most = resultOf(join('consensus', three, { settings: { ...settings, share: 0.6 } }))
  assert.deepEqual([most.decision, most.selected_artifact_id, most.losers], ['succeeded', 'art-0', ['3']])
  assert.equal(resultOf(join('consensus', [aWorker('1'), aWorker('2', same)])).decision, 'succeeded')
})

test('[SWM-17] ranked_review: the ranks of all reviewers are added; equal ranks go to the lower id', () => {
  const three = [aWorker('1'), aWorker('2'), aWorker('3')]
  const evaluations = [
    says('art-1', 0.9, 'a'),
    says('art-2', 0.8, 'a'),
    says('art-3', 0.1, 'a'),
    says('art-1', 0.1, 'b'),
    says('art-2', 0.8, 'b'),
    says('art-3', 0.2, 'b'),
  ]
  const best = resultOf(join('ranked_review', three, { evaluations, haveJudgesEnded: true }))
  assert.deepEqual([best.selected_artifact_id, best.confidence], ['art-2', 0.75])
  const even = [says('art-3', 0.5, 'a'), says('art-2', 0.5, 'a')]
  assert.equal(
    resultOf(join('ranked_review', three, { evaluations: even, haveJudgesEnded: true })).selected_artifact_id,
    'art-2',
  )
  assert.equal(resultOf(join('ranked_review', three, { haveJudgesEnded: true })).decision, 'failed')
})

test('[SWM-10] the order in which results and evaluations arrive never changes a join', () => {
  const ids = ['1', '2', '3', '4', '5']
  const worker = fc.record({
    status: fc.constantFrom('succeeded', 'succeeded', 'failed', 'cancelled', 'expired', null),
    isRequired: fc.boolean(),
    hash: fc.constantFrom('x', 'y'),
    second: fc.integer({ min: 0, max: 3 }),
    judged: fc.array(
      fc.tuple(
        fc.constantFrom('j1', 'j2'),
        fc.constantFrom('pass', 'pass', 'fail'),
        fc.double({ min: 0, max: 1, noNaN: true }),
      ),
    ),
  })
  const arbitrary = fc.tuple(
    fc.constantFrom(...joinStrategies),
    fc.array(worker, { minLength: 1, maxLength: 5 }),
    fc.record({
      haveJudgesEnded: fc.boolean(),
      needed: fc.option(fc.integer({ min: 1, max: 5 })),
      share: fc.constantFrom(0.4, 0.6, 1),
    }),
    fc.infiniteStream(fc.nat()),
  )
  fc.assert(
    fc.property(arbitrary, ([strategy, drawn, { haveJudgesEnded, needed, share }, shuffle]) => {
      const workers = drawn.map(({ status, isRequired, hash, second }, at): JoinWorker => {
        const id = ids[at] ?? ''
        const artifacts = [0, 1].map((nth) => ({
          artifactId: `${id}${nth}`,
          artifactType: 'analysis',
          contentHash: hash,
        }))
        return {
          agentRunId: id,
          status,
          isRequired,
          part: id,
          artifacts,
          endedAt: status === null ? null : `0${second}`,
        }
      })
      const evaluations = drawn.flatMap(({ judged }, at) =>
        judged.map(([by, decision, confidence]) => says(`${ids[at]}1`, confidence, by, decision)),
      )
      const more = { haveJudgesEnded, settings: { ...settings, needed, share } }
      const mixed = <T>(list: readonly T[]) =>
        list
          .map((each) => [shuffle.next().value ?? 0, each] as const)
          .sort(([one], [other]) => one - other)
          .map(([, each]) => each)
      const other = mixed(workers).map((each) => ({ ...each, artifacts: mixed(each.artifacts) }))
      assert.deepEqual(
        join(strategy, other, { ...more, evaluations: mixed(evaluations) }),
        join(strategy, workers, { ...more, evaluations }),
      )
    }),
    { numRuns: 20_000 },
  )
})
