/** Plans without the values that the contracts of their tasks hide, and such a plan when it comes back. Pure. */
import { type Catalog, redactPayload, restorePayload } from '#domains/commands'
import { accept, type Decision } from '#kernel/refusal'
import { type MissionPlan, type PlanTask, refusePlan, sayRun, taskNameOf } from './plan.ts'

type Tasks = Pick<Catalog, 'tasks'>

const classesOf = ({ tasks }: Tasks, run: PlanTask['run']) => tasks.get(taskNameOf(run))?.type.fields ?? {}

/** A payload is shown as in the view of its command. */
export function showPlan(plan: MissionPlan, catalog: Tasks): MissionPlan {
  return {
    ...plan,
    tasks: plan.tasks.map(({ run, ...task }) => {
      return { ...task, run: { ...run, payload: redactPayload(run.payload, classesOf(catalog, run), 'pii') } }
    }),
  }
}

/**
 * A hidden value that is still as `showPlan` gave it is the stored one of the same task, if the same runner gets it. Without one it is a finding: the name of
 * a class is never a value.
 */
export function restorePlan(
  given: MissionPlan,
  stored: MissionPlan | undefined,
  catalog: Tasks,
): Decision<MissionPlan> {
  const before = new Map(stored?.tasks.map(({ temp_id, run }) => [temp_id, run]))
  const findings: Parameters<typeof refusePlan>[0][number][] = []
  const tasks = given.tasks.map((task, index) => {
    const { run } = task
    const known = before.get(task.temp_id)
    const own = known && sayRun(known) === sayRun(run) ? known.payload : {}
    const { payload, hidden } = restorePayload(run.payload, own, classesOf(catalog, run), 'pii')
    for (const at of hidden)
      findings.push({
        code: 'hidden',
        path: `plan.tasks[${index}].run.payload.${at}`,
        message: 'It is the name of a hidden value, and the stored task has no such value. Send the value itself.',
      })
    return { ...task, run: { ...run, payload } }
  })
  return findings.length > 0 ? refusePlan(findings) : accept({ ...given, tasks })
}
