/** From the record of a request to its plan: validate, put to policy, then wait for a person, refuse, or plan. One commit. */
import { failpoint } from '#store'
import { contentHash, contentOf } from './content.ts'
import { askPolicy, decideCourse } from './decide-course.ts'
import { endFailed, type StepEnd } from './end-failed.ts'
import { gatherFacts } from './gather-facts.ts'
import { putToWork } from './put-to-work.ts'
import { draftEffects } from './plan-effects.ts'
import { taskOf } from './task-of.ts'
import { commitTurn, draftOf, type Turn } from './turn.ts'
import { validatePayload } from './validate-payload.ts'
import { waitForApproval, waitForInput } from './wait-for-people.ts'
import { bySystem } from './deps.ts'

/** For `created` and `validated`. */
export async function stepIntake(turn: Turn): Promise<StepEnd> {
  const task = taskOf(turn)
  const draft = draftOf(turn)
  if (!task) return endFailed(turn, draft, 'internal_error', `the task of this command is no longer registered`)
  const at = turn.deps.now()
  let { command } = turn
  if (command.status === 'created') {
    const verdict = validatePayload(task.type, task.spec, command.payload)
    if (verdict.t === 'malformed') return endFailed(turn, draft, 'malformed_payload', verdict.errors.join('; '))
    if (verdict.t === 'fits') command = { ...command, payload: verdict.payload }
    draft.move('validated', bySystem)
    if (verdict.t === 'missing') return waitForInput(turn, draft, task, verdict.fields)
  }
  await failpoint('commands.classified')
  const drafts = draftEffects(task, { command })
  const content = contentOf(task, command.payload, drafts.ok ? drafts.value : [])
  command = { ...command, payload_hash: contentHash(content) }
  draft.set({ payload: command.payload, payload_hash: command.payload_hash })
  const question = askPolicy(task, command, await gatherFacts(turn.deps, command, task.factNames))
  draft.tell('policy_evaluated', bySystem, question.record)
  const byOperation =
    drafts.ok &&
    drafts.value.some(({ effect_type }) => turn.deps.catalog.effects.get(effect_type)?.operation?.approval_required)
  const course = decideCourse(task, question.result, { byOperation }, at)
  await failpoint('commands.policy_decided')
  const found = { command, effects: turn.effects }
  switch (course.t) {
    case 'deny':
      return endFailed(turn, draft, 'policy_denied', course.reason)
    case 'input':
      return waitForInput(turn, draft, task, course.fields)
    case 'delay':
      return (await commitTurn(turn, draft.release(course.until).done()))
        ? { t: 'wait', until: course.until }
        : undefined
    case 'approval':
      return waitForApproval(turn, draft, task, { ...found, course, question, content })
    case 'go':
      return putToWork(turn, draft, task, { ...found, policy: question.result, isApproved: false })
  }
}
