/** The reverse walk on random histories, drift in both directions, and the end of a chain that cannot go on. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import {
  compensationDrift,
  decideAfterUndoFailure,
  decideDrift,
  type EffectRecord,
  effectStatuses,
  hasDrift,
  planCompensation,
  type UndoStep,
} from './compensation.ts'

function anEffect(order: number, more: Partial<EffectRecord> = {}): EffectRecord {
  return {
    domain_effect_id: `e${order}`,
    declaration_order: order,
    status: 'succeeded',
    declared_compensation: `undo_e${order}`,
    compensates_effect_id: null,
    ...more,
  }
}

/** The row that a compensation writes; it follows everything that was planned. */
function anUndo(of: string, status: EffectRecord['status'], number = 1): EffectRecord {
  return anEffect(1_000 + number, {
    domain_effect_id: `undo${number}_${of}`,
    status,
    declared_compensation: null,
    compensates_effect_id: of,
  })
}

const idsOf = (steps: readonly UndoStep[]) => steps.map((step) => step.effect_id)

describe('plan', () => {
  test('reverse order, only what succeeded and declares a compensation', () => {
    const effects = [
      anEffect(1),
      anEffect(2, { declared_compensation: null }),
      anEffect(3, { status: 'failed' }),
      anEffect(4),
      anEffect(5, { status: 'planned' }),
    ]
    assert.deepEqual(planCompensation(effects), {
      steps: [
        { effect_id: 'e4', compensation: 'undo_e4', begun_as: null },
        { effect_id: 'e1', compensation: 'undo_e1', begun_as: null },
      ],
      unsettled: [],
    })
  })

  test('what has been undone is not undone again, and an undo is never undone', () => {
    const effects = [anEffect(1), anEffect(2), anUndo('e2', 'failed', 1), anUndo('e2', 'succeeded', 2)]
    assert.deepEqual(idsOf(planCompensation(effects).steps), ['e1'])
    const proud = { ...anUndo('e1', 'succeeded', 3), declared_compensation: 'undo_the_undo' }
    assert.deepEqual(planCompensation([anEffect(1), proud]).steps, [])
  })

  test('an undo that failed is tried as a new row, one that was begun is looked into', () => {
    assert.deepEqual(planCompensation([anEffect(1), anUndo('e1', 'failed')]).steps, [
      { effect_id: 'e1', compensation: 'undo_e1', begun_as: null },
    ])
    assert.deepEqual(planCompensation([anEffect(1), anUndo('e1', 'executing')]).steps, [
      { effect_id: 'e1', compensation: 'undo_e1', begun_as: 'undo1_e1' },
    ])
  })

  test('an effect whose outcome is unknown is named and not undone yet', () => {
    const plan = planCompensation([anEffect(1), anEffect(2, { status: 'executing' })])
    assert.deepEqual(idsOf(plan.steps), ['e1'])
    assert.deepEqual(plan.unsettled, ['e2'])
  })

  const someEffects = fc
    .array(fc.record({ status: fc.constantFrom(...effectStatuses), isUndoable: fc.boolean() }), { maxLength: 30 })
    .map((drafts) =>
      drafts.map(({ status, isUndoable }, order) =>
        anEffect(order, { status, ...(isUndoable ? {} : { declared_compensation: null }) }),
      ),
    )

  test('on random histories the plan is the exact reverse, each once, only successes', () => {
    fc.assert(
      fc.property(someEffects, fc.infiniteStream(fc.nat()), (effects, keys) => {
        const expected: string[] = []
        for (const effect of effects)
          if (effect.status === 'succeeded' && effect.declared_compensation !== null)
            expected.unshift(effect.domain_effect_id)
        const mixed = effects
          .map((effect) => ({ effect, key: keys.next().value ?? 0 }))
          .toSorted((a, b) => a.key - b.key)
          .map(({ effect }) => effect)
        assert.deepEqual(idsOf(planCompensation(mixed).steps), expected)
        assert.equal(new Set(expected).size, expected.length)
      }),
    )
  })

  test('after a stop at any point the walk continues where it stopped, and then ends', () => {
    fc.assert(
      fc.property(someEffects, fc.nat(), (effects, at) => {
        const whole = idsOf(planCompensation(effects).steps)
        const stop = at % (whole.length + 1)
        const half = whole.slice(0, stop).map((id, number) => anUndo(id, 'succeeded', number))
        assert.deepEqual(idsOf(planCompensation([...effects, ...half]).steps), whole.slice(stop))
        const all = whole.map((id, number) => anUndo(id, 'succeeded', number))
        assert.deepEqual(planCompensation([...effects, ...all]).steps, [])
      }),
    )
  })
})

describe('drift', () => {
  test('[EFF-19] drift is what was emitted and not declared', () => {
    assert.deepEqual(decideDrift(['cancel'], ['mail', 'cancel', 'audit', 'mail']), {
      drift: ['audit', 'mail'],
      missing: [],
    })
    assert.equal(hasDrift(decideDrift(['cancel'], ['mail', 'cancel'])), true)
  })

  test('[EFF-19] no drift when both sides are the same set', () => {
    assert.equal(hasDrift(decideDrift(['a', 'b'], ['b', 'a', 'b'])), false)
    assert.equal(hasDrift(decideDrift([], [])), false)
  })

  test('[EFF-21] what was declared and not emitted is missing', () => {
    const drift = decideDrift(['cancel', 'refund'], ['cancel'])
    assert.deepEqual(drift, { drift: [], missing: ['refund'] })
    assert.equal(hasDrift(drift), true)
    assert.deepEqual(compensationDrift('e1', drift).payload, { effect_id: 'e1', drift: [], missing: ['refund'] })
  })

  test('the audit row names the effect and the drift', () => {
    assert.deepEqual(compensationDrift('e1', { drift: ['mail'], missing: [] }), {
      event_type: 'compensation_drift',
      purpose: 'audit',
      payload: { effect_id: 'e1', drift: ['mail'] },
    })
  })

  test('[EFF-19] [EFF-21] both sides on random sets', () => {
    const names = fc.array(fc.constantFrom<string[]>('a', 'b', 'c', 'd', 'e'))
    fc.assert(
      fc.property(names, names, (declared, emitted) => {
        const { drift, missing } = decideDrift(declared, emitted)
        for (const name of ['a', 'b', 'c', 'd', 'e']) {
          assert.equal(drift.includes(name), emitted.includes(name) && !declared.includes(name))
          assert.equal(missing.includes(name), declared.includes(name) && !emitted.includes(name))
        }
      }),
    )
  })
})

describe('an undo that fails', () => {
  const [third, second, first] = planCompensation([anEffect(1), anEffect(2), anEffect(3)]).steps
  assert.ok(first && second && third)
  const failure = {
    failed: second,
    completed: [third],
    remaining: [first],
    drift: { drift: [], missing: ['x.cancel'] },
  }

  test('with an attempt left it is tried again', () => {
    const decision = decideAfterUndoFailure({ ...failure, retry: { retry: true, delayMs: 30_000, nextAttempt: 2 } })
    assert.deepEqual(decision, { next: 'retry', delayMs: 30_000, nextAttempt: 2 })
  })

  test('without one the chain halts, the row records how far it came, the command is failed', () => {
    const decision = decideAfterUndoFailure({ ...failure, retry: { retry: false, why: 'exhausted' } })
    assert.deepEqual(decision, {
      next: 'halt',
      commandStatus: 'failed',
      event: {
        event_type: 'compensation_drift',
        purpose: 'audit',
        payload: {
          effect_id: 'e2',
          drift: [],
          missing: ['x.cancel'],
          halted: 'exhausted',
          completed: ['e3'],
          remaining: ['e1'],
        },
      },
    })
  })
})
