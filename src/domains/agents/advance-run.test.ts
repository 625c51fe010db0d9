/** The life of a run as a pure function: each end, each wait, and properties of any sequence of facts. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { agentRunMachine, type AgentRunState } from '#kernel/machines/agent'
import { commandMachine, type CommandState } from '#kernel/machines/command'
import { advanceRun, type CallState, type OpenAnswer, type OpenCall, type RunFacts } from './advance-run.ts'

const AT = new Date('2026-05-01T10:00:00Z')
const facts = (more: Partial<RunFacts>): RunFacts => ({
  status: 'running',
  stepCount: 0,
  maxSteps: 20,
  deadlineAt: null,
  conditions: [],
  cancel: null,
  stop: null,
  isLooping: false,
  isRaiseRefused: false,
  answer: null,
  calls: [],
  others: [],
  ...more,
})
const answer = (more: Partial<OpenAnswer> = {}): OpenAnswer => ({
  text: null,
  calls: [],
  final: null,
  lastBecause: null,
  isErased: false,
  ...more,
})
const open = (status: CommandState, more: object = {}): OpenCall => ({
  t: 'open',
  commandId: 'c1',
  status,
  isSpawn: false,
  isCancelRequested: false,
  ...more,
})
const settled = (decision: 'done' | 'denied' = 'done'): CallState => ({ t: 'settled', decision })
const next = (more: Partial<RunFacts>) => advanceRun(facts(more), AT)

test('a run starts, asks, proposes all calls of an answer, waits, and records them together', () => {
  assert.deepEqual(next({ status: 'created' }), { t: 'start' })
  assert.deepEqual(next({}), { t: 'ask', lastBecause: null })
  const two = { answer: answer(), calls: [{ t: 'unproposed' }, { t: 'unproposed' }] as const }
  assert.deepEqual(next(two), { t: 'propose', calls: [0, 1] })
  assert.deepEqual(next({ ...two, calls: [settled(), open('running')] }), {
    t: 'wait',
    status: 'waiting_for_tool',
    until: null,
  })
  assert.deepEqual(next({ ...two, calls: [settled(), settled()] }), { t: 'record', calls: [0, 1], end: null })
})

test('a run shows what it waits for: a person before a child, a child before a tool', () => {
  const waits = (...calls: CallState[]) => {
    const step = next({ answer: answer(), calls })
    return step.t === 'wait' ? step.status : step.t
  }
  assert.equal(waits(open('running'), open('waiting_for_approval')), 'waiting_for_approval')
  assert.equal(waits(open('blocked'), open('waiting_for_input')), 'waiting_for_approval')
  assert.equal(waits(open('waiting_for_input'), open('running', { isSpawn: true })), 'waiting_for_input')
  assert.equal(waits(open('running', { isSpawn: true }), open('queued')), 'waiting_for_children')
  assert.equal(waits(open('queued')), 'waiting_for_tool')
})

test('[AGT-06] each end has one reason', () => {
  const endOf = (more: Partial<RunFacts>) => {
    const step = next(more)
    return step.t === 'record' || step.t === 'end' ? `${step.end?.status ?? ''} ${step.end?.reason ?? ''}` : step.t
  }
  assert.equal(endOf({ answer: answer({ final: {} }) }), 'succeeded final_answer_created')
  assert.equal(endOf({ cancel: { reason: 'human_cancelled' } }), 'cancelled human_cancelled')
  assert.equal(endOf({ cancel: { reason: 'stopped' } }), 'cancelled stopped')
  assert.equal(endOf({ stop: { ends_runs: true } }), 'cancelled stopped')
  assert.equal(endOf({ stop: { ends_runs: false } }), 'wait')
  const denied = { answer: answer(), calls: [settled('denied')] }
  assert.equal(endOf({ ...denied, conditions: ['policy_denied'] }), 'failed policy_denied')
  assert.equal(endOf(denied), ' ', 'a denial is an observation')
  assert.equal(endOf({ isLooping: true }), 'failed loop_detected')
  assert.equal(endOf({ deadlineAt: AT }), 'expired deadline_passed')
  assert.equal(endOf({ answer: answer(), calls: [settled()], stepCount: 19 }), 'failed max_steps_reached')
  assert.equal(endOf({ stepCount: 20 }), 'failed max_steps_reached')
  const last = answer({ lastBecause: 'max_steps_reached' })
  assert.equal(endOf({ answer: last, calls: [{ t: 'unproposed' }], stepCount: 19 }), 'failed max_steps_reached')
  assert.equal(endOf({ answer: answer({ lastBecause: 'budget_exhausted' }) }), 'failed budget_exhausted')
  assert.equal(endOf({ answer: answer({ isErased: true }) }), 'failed failed')
  assert.deepEqual(next({ stepCount: 19 }), { t: 'ask', lastBecause: 'max_steps_reached' })
})

test('a run that must end cancels its open calls first, and records those that were made', () => {
  const leaving = { status: 'cancelling', cancel: { reason: 'human_cancelled' }, answer: answer() } as const
  assert.deepEqual(next({ ...leaving, calls: [open('running'), { t: 'unproposed' }] }), {
    t: 'cancel_calls',
    commandIds: ['c1'],
  })
  const waiting = next({ ...leaving, calls: [open('cancelling', { isCancelRequested: true })] })
  assert.deepEqual(waiting, { t: 'wait', status: 'cancelling', until: null })
  const end = { status: 'cancelled', reason: 'human_cancelled' }
  assert.deepEqual(next({ ...leaving, calls: [settled(), { t: 'unproposed' }] }), { t: 'record', calls: [0], end })
  const erased = { answer: answer({ isErased: true }), stepCount: 20, others: [open('running')] }
  assert.deepEqual(next(erased), { t: 'cancel_calls', commandIds: ['c1'] })
  const both = { calls: [open('running')], others: [open('waiting_for_approval', { commandId: 'c2' })] }
  assert.deepEqual(next({ ...leaving, ...both }), { t: 'cancel_calls', commandIds: ['c1', 'c2'] })
  assert.deepEqual(next({ ...leaving, others: null }), { t: 'look' })
})

test('a run that ends by itself looks for its other open steps, and waits for them', () => {
  const endings: readonly Partial<RunFacts>[] = [
    { answer: answer({ final: {} }) },
    { answer: answer({ lastBecause: 'budget_exhausted' }) },
    { answer: answer(), calls: [settled()], stepCount: 19 },
    { stepCount: 20 },
    { isLooping: true },
  ]
  for (const ending of endings) {
    assert.deepEqual(next({ ...ending, others: null }), { t: 'look' })
    const waiting = next({ ...ending, others: [open('waiting_for_approval')], deadlineAt: new Date(AT.getTime() + 1) })
    assert.deepEqual(waiting, { t: 'wait', status: 'waiting_for_approval', until: new Date(AT.getTime() + 1) })
  }
  assert.deepEqual(next({ others: null }), { t: 'ask', lastBecause: null })
})

const openCalls: fc.Arbitrary<OpenCall> = fc
  .record({
    status: fc.constantFrom(...(Object.keys(commandMachine.states) as CommandState[])),
    isSpawn: fc.boolean(),
    isCancelRequested: fc.boolean(),
  })
  .map((call): OpenCall => ({ t: 'open', commandId: 'c1', ...call }))
const callStates: fc.Arbitrary<CallState> = fc.oneof(
  fc.constant<CallState>({ t: 'unproposed' }),
  openCalls,
  fc
    .record({ decision: fc.constantFrom('done', 'denied', 'failed', 'approved') })
    .map((call): CallState => ({ t: 'settled', ...call })),
)
const anyFacts = fc
  .record({
    status: fc.constantFrom(...(Object.keys(agentRunMachine.states) as AgentRunState[])),
    maxSteps: fc.integer({ min: 1, max: 6 }),
    used: fc.nat(6),
    late: fc.constantFrom(null, new Date(AT.getTime() - 1), new Date(AT.getTime() + 1)),
    conditions: fc.constantFrom([], ['policy_denied']),
    cancel: fc.constantFrom(null, { reason: 'human_cancelled' as const }),
    stop: fc.constantFrom(null, { ends_runs: false }, { ends_runs: true }),
    isLooping: fc.boolean(),
    isRaiseRefused: fc.boolean(),
    hasAnswer: fc.boolean(),
    final: fc.constantFrom(null, {}),
    calls: fc.array(callStates, { maxLength: 5 }),
    others: fc.option(fc.array(openCalls, { maxLength: 2 })),
  })
  .map(
    ({
      status,
      maxSteps,
      used,
      late,
      conditions,
      cancel,
      stop,
      isLooping,
      isRaiseRefused,
      hasAnswer,
      final,
      calls,
      others,
    }): RunFacts => ({
      others,
      isLooping,
      isRaiseRefused,
      status,
      maxSteps,
      stepCount: Math.min(used, maxSteps),
      deadlineAt: late,
      conditions,
      cancel,
      stop,
      answer: hasAnswer && used < maxSteps ? answer({ final }) : null,
      calls: hasAnswer && used < maxSteps && !final ? calls : [],
    }),
  )

test('[AGT-06] no facts let a run pass its steps, propose after a request to end, or end with a call that is open', () => {
  fc.assert(
    fc.property(anyFacts, (given) => {
      const step = advanceRun(given, AT)
      const isLeaving =
        given.stop !== null ||
        given.cancel !== null ||
        given.status === 'cancelling' ||
        (given.deadlineAt !== null && given.deadlineAt <= AT)
      if (step.t === 'propose') {
        assert.ok(!isLeaving)
        assert.ok(given.stepCount + Math.max(...step.calls) < given.maxSteps)
      }
      if (step.t === 'record') assert.ok(given.stepCount + Math.max(1, step.calls.length) <= given.maxSteps)
      if (step.t === 'ask') assert.ok(!isLeaving && given.stepCount < given.maxSteps)
      if (step.t === 'end' || (step.t === 'record' && step.end?.status === 'cancelled'))
        assert.ok(!given.calls.slice(0, given.maxSteps - given.stepCount).some(({ t }) => t === 'open'))
      if (step.t === 'end' || (step.t === 'record' && step.end)) assert.deepEqual(given.others, [])
    }),
    { numRuns: 20_000 },
  )
})

test('after people refused a higher budget one answer is left: with a result the run hands it back, without one it failed', () => {
  assert.deepEqual(next({ isRaiseRefused: true }), { t: 'ask', lastBecause: 'budget_exhausted' })
  const last = { lastBecause: 'budget_exhausted' as const }
  assert.deepEqual(next({ answer: answer({ ...last, final: {} }) }), {
    t: 'record',
    calls: [],
    end: { status: 'succeeded', reason: 'budget_exhausted' },
  })
  assert.deepEqual(next({ answer: answer(last) }), {
    t: 'record',
    calls: [],
    end: { status: 'failed', reason: 'budget_exhausted' },
  })
})
