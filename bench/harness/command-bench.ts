/** The work of `concord up`, with tasks whose effects cost nothing, so that only Concord is measured. */
import { z } from 'zod'
import { decideApproval } from '#domains/approvals'
import {
  actingFor,
  type CommandDeps,
  defineCommandType,
  type Definition,
  defineEffect,
  defineFunction,
  definePolicy,
  defineTask,
  submitCommand,
} from '#domains/commands'
import { openWork } from '#app/open-work'
import { openLog } from '#app/log'
import { systemDeps } from '#app/system-deps'
import { errorClasses } from '#kernel/error-classes'
import type { Db } from '#store'
import { noArtifacts } from '#test/no-artifacts'
import { accepted, aTenant, TRACE } from '#test/tenant'
import { byPerson } from '#kernel/actor'

export type CommandBench = {
  /** Submits; resolves with the id when the command is committed, or done if its task runs inline. */
  submit(task: string): Promise<string>
  /** Submits and waits for the end of the command. */
  run(task: string): Promise<void>
  /**
   * Prepares a command that waits for its approval; returns the function that approves it and resolves when the effect begins.
   */
  gate(): Promise<() => Promise<void>>
  /** Submits and waits until its effect begins. */
  start(): Promise<void>
  close(): Promise<void>
}

const contract = {
  error_classes: errorClasses,
  payload: z.strictObject({ subject: z.string(), note: z.string() }),
  cancellable_by: ['requester', 'admin'] as const,
  audit: ['command_created', 'policy_evaluated'],
}

/** About 200 bytes, as in the reference cases. */
const note = 'n'.repeat(150)

export function definitions(begun: (subject: unknown) => void): readonly Definition[] {
  const keyed = (name: string) =>
    defineEffect({
      effect_type: `bench.${name}`,
      class: 'keyed',
      do: async ({ payload }) => {
        begun(payload['subject'])
        return { done: true }
      },
    })
  const task = (name: string, effects: readonly string[], more: object) => [
    defineFunction({
      name,
      plan: ({ subject }) => effects.map((effect_type) => ({ effect_type, payload: { subject: subject ?? null } })),
    }),
    defineCommandType({ name, description: name, side_effects: effects, ...contract }),
    defineTask({
      name,
      description: name,
      command_type: name,
      function_name: name,
      ingress_types: ['user_request'],
      required_inputs: ['subject'],
      policy_checks: ['permission', 'gate'],
      ...more,
    }),
  ]
  const four = ['a', 'b', 'c', 'd']
  return [
    definePolicy({
      name: 'gate',
      category: 'environment',
      actions: '*',
      decide: ({ command }) =>
        command['command_type'] === 'gated'
          ? { decision: 'require_approval', reasons: ['as the bench wants it'], required_approvals: ['owner'] }
          : { decision: 'allow' },
    }),
    defineEffect({ effect_type: 'bench.read', class: 'read', bounded: true, do: async () => ({ done: true }) }),
    ...four.map(keyed),
    ...task('inline', ['bench.read'], { sync_allowed: true }),
    ...task('durable', ['bench.a'], { async_required: true }),
    ...task(
      'durable_four',
      four.map((letter) => `bench.${letter}`),
      { async_required: true },
    ),
    ...task('gated', ['bench.a'], { async_required: true }),
  ]
}

export async function openCommandBench(db: Db): Promise<CommandBench> {
  const world = systemDeps()
  const tenant = await aTenant({ db, ...world })
  const begun = openBell()
  const ended = openBell()
  const project = { catalog: definitions(begun.ring) }
  const options = { artifacts: noArtifacts(db, world), defaultWorkspace: tenant.workspace.id, works: true }
  const work = accepted(await openWork(db, world, project, openLog('error'), options))
  ringAtEnd(work.commands, ended)
  const by = actingFor(tenant.people.writer.principal, TRACE)
  const who = { ...tenant.people.admin.principal, orgRoles: ['owner'] }
  const workspaceId = tenant.workspace.id
  let count = 0
  const nextSubject = () => `s${(count += 1)}`

  async function submit(taskName: string, subject: string): Promise<string> {
    const payload = { subject, note }
    const asked = { workspaceId, taskName, payload, ingress: 'user_request', requestId: `req_${subject}` } as const
    const { command } = accepted(await submitCommand(work.commands, by, asked))
    if (taskName === 'inline' && command.status !== 'succeeded') throw new Error('The command did not run inline.')
    return command.command_id
  }

  async function pendingOf(commandId: string): Promise<string> {
    for (;;) {
      const [row] = await db.query<{ approval_id: string }>(
        `select approval_id from concord.approvals where command_id = $1 and status = 'pending'`,
        [commandId],
      )
      if (row) return row.approval_id
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
  }

  return {
    submit: (task) => submit(task, nextSubject()),
    async run(task) {
      const subject = nextSubject()
      const end = task === 'inline' ? undefined : ended.next(subject)
      await submit(task, subject)
      await end
    },
    async gate() {
      const subject = nextSubject()
      const approvalId = await pendingOf(await submit('gated', subject))
      return async () => {
        const resumed = begun.next(subject)
        const answer = { workspaceId, approvalId, decision: 'approved', reason: 'yes', traceId: TRACE }
        accepted(await decideApproval(work.approvals, byPerson(who, TRACE), answer))
        await resumed
      }
    },
    async start() {
      const subject = nextSubject()
      const started = begun.next(subject)
      await submit('durable', subject)
      await started
    },
    close: () => work.close(),
  }
}

type Bell = ReturnType<typeof openBell>

/** The end of a command is the commit of its last write; polling for it would add its own cost. */
export function ringAtEnd({ writes }: CommandDeps, ended: Bell): void {
  const commit = writes.commit.bind(writes)
  Object.assign(writes, {
    commit: async (write: Parameters<typeof commit>[0]) => {
      const written = await commit(write)
      if (written.ok && write.to === 'succeeded') ended.ring(write.command.payload['subject'])
      return written
    },
  })
}

/** Waits for a name until it is signalled; the wait comes first. */
export function openBell() {
  const waiting = new Map<unknown, () => void>()
  return {
    next: (name: string) => new Promise<void>((resolve) => waiting.set(name, resolve)),
    ring(name: unknown): void {
      waiting.get(name)?.()
      waiting.delete(name)
    },
  }
}
