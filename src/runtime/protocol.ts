/**
 * The classic names of a durable runtime as thin forms over turns: to submit is the first wake, to signal is a row and a
 * wake, to cancel is a flag on the row and a wake (never the engine's hard cancel), a step is an outcome on a row, to sleep
 * is the end of a turn, and a result is what the row says.
 */
import { KernelFault } from '#kernel/errors'
import type { CatalogRuntime } from '#kernel/saga/manifests'
import type { Decision } from '#kernel/refusal'
import type { Fence } from './fence.ts'
import type { Drive, JoinableTx, KindOptions, Next, Process, ProcessView, Runtime } from './port.ts'
import type { ScheduleSpec, ScheduleView } from './port.ts'
import { catalogRuntime } from './profile.ts'

export type WorkflowSpec = {
  /** The kind of process. */
  readonly name: string
  /** Chosen by the caller: the same id again is the same workflow. */
  readonly id: string
  readonly input: unknown
  readonly queue?: string
}

export type WorkflowHandle = { readonly name: string; readonly id: string }
export type StepSpec = WorkflowSpec
export type StepHandle = WorkflowHandle
export type ScheduleHandle = { readonly name: string }

export type WorkflowResult =
  | { readonly status: 'succeeded'; readonly value: unknown }
  | { readonly status: 'failed' | 'cancelled'; readonly errorClass: string; readonly message: string }

export type CancelMode = 'graceful' | 'compensate_then_stop'

/** The rows of one kind, kept by its owner. Each call inside `transaction` writes with the same commit as the wake. */
export type ProcessRows<Tx extends JoinableTx> = {
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** The same id with the same input changes nothing; with another input it is refused. */
  insert(tx: Tx, id: string, input: unknown): Promise<Decision<void>>
  requestCancel(tx: Tx, id: string, mode: CancelMode): Promise<'requested' | 'already_final' | 'unknown'>
  /** Kept in the order of arrival, also when nothing waits for it yet; the same message id counts once. */
  recordSignal(tx: Tx, id: string, signal: { name: string; payload: unknown; messageId: string }): Promise<void>
  /** The oldest signal of that name which nobody has taken, taken with this. */
  takeSignal(tx: Tx, id: string, name: string): Promise<{ readonly payload: unknown } | undefined>
  findStep(id: string, key: string): Promise<{ readonly value: unknown } | undefined>
  /** False when a later turn has the row: then nothing is kept. */
  recordStep(tx: Tx, id: string, token: string, step: { key: string; value: unknown }): Promise<boolean>
  findResult(id: string): Promise<WorkflowResult | undefined>
  /** Resolves when the row may have changed: the store's feed, or a clock. */
  changed(id: string): Promise<void>
}

/** What the row says once it is over; before that what the runtime has open, and `idle` when it has nothing. */
export type WorkflowStatus = WorkflowResult['status'] | ProcessView['state'] | 'idle'

export type DurableProtocol<Tx extends JoinableTx = JoinableTx> = {
  readonly capabilities: CatalogRuntime['capabilities']
  submitWorkflow(spec: WorkflowSpec): Promise<Decision<WorkflowHandle>>
  waitForResult(handle: WorkflowHandle): Promise<WorkflowResult>
  cancel(handle: WorkflowHandle, mode: CancelMode): Promise<'requested' | 'already_final' | 'unknown'>
  enqueueStep(queueName: string, spec: StepSpec): Promise<Decision<StepHandle>>
  schedule(spec: ScheduleSpec): Promise<Decision<ScheduleView>>
  signal(handle: WorkflowHandle, name: string, payload: unknown, messageId: string): Promise<void>
  /** Before the runtime opens. */
  registerWorkflow(name: string, drive: Drive, options?: KindOptions): void
  /** Work whose outcome is on a row is not done again; an outcome that another turn may have written is not believed. */
  step<T>(handle: WorkflowHandle, fence: Fence, key: string, work: WorkOf<T>): Promise<T>
  transaction<T>(name: string, work: (tx: Tx) => Promise<T>): Promise<T>
  /** What a turn answers to sleep; nothing of it stays in memory. Null: until a wake. */
  sleep(until: Date | null): Next
  /** Undefined: nothing of that name has arrived, and a signal wakes whoever sleeps. */
  receive(handle: WorkflowHandle, name: string): Promise<{ readonly payload: unknown } | undefined>
  getStatus(handle: WorkflowHandle): Promise<WorkflowStatus>
}

export function durableProtocol<Tx extends JoinableTx>(
  runtime: Runtime,
  rowsOf: (kind: string) => ProcessRows<Tx>,
): DurableProtocol<Tx> {
  const processOf = ({ name, id }: WorkflowHandle): Process => ({ kind: name, id })

  async function submit(
    { name, id, input }: WorkflowSpec,
    queue: string | undefined,
  ): Promise<Decision<WorkflowHandle>> {
    const rows = rowsOf(name)
    return rows.transaction(async (tx) => {
      const inserted = await rows.insert(tx, id, input)
      if (!inserted.ok) return inserted
      await runtime.wake({ kind: name, id }, { tx, ...(queue === undefined ? {} : { queue }) })
      return { ok: true, value: { name, id } }
    })
  }

  return {
    capabilities: catalogRuntime(runtime.profile).capabilities,
    submitWorkflow: (spec) => submit(spec, spec.queue),
    enqueueStep: (queueName, spec) => submit(spec, queueName),
    async waitForResult({ name, id }) {
      const rows = rowsOf(name)
      for (;;) {
        // Listening begins before the look, so that a change in between is not slept through.
        const changed = rows.changed(id)
        const result = await rows.findResult(id)
        if (result) return result
        await changed
      }
    },
    cancel(handle, mode) {
      const rows = rowsOf(handle.name)
      return rows.transaction(async (tx) => {
        const answer = await rows.requestCancel(tx, handle.id, mode)
        if (answer === 'requested') await runtime.wake(processOf(handle), { tx })
        return answer
      })
    },
    schedule: (spec) => runtime.schedule(spec),
    signal(handle, name, payload, messageId) {
      const rows = rowsOf(handle.name)
      return rows.transaction(async (tx) => {
        await rows.recordSignal(tx, handle.id, { name, payload, messageId })
        await runtime.wake(processOf(handle), { tx })
      })
    },
    registerWorkflow: (name, drive, options) => runtime.register(name, drive, options),
    async step<T>({ name, id }: WorkflowHandle, { token, signal }: Fence, key: string, work: WorkOf<T>): Promise<T> {
      const rows = rowsOf(name)
      const known = await rows.findStep(id, key)
      // Whoever wrote it had the type of this very step.
      if (known) return known.value as T
      const value = await work(signal)
      if (await rows.transaction((tx) => rows.recordStep(tx, id, token, { key, value }))) return value
      throw new KernelFault('runtime.turn.lost', 'a later turn has this process, so nothing of this one is kept')
    },
    transaction: (name, work) => rowsOf(name).transaction(work),
    sleep: (until) => ({ t: 'wait', until }),
    receive({ name: kind, id }, name) {
      const rows = rowsOf(kind)
      return rows.transaction((tx) => rows.takeSignal(tx, id, name))
    },
    async getStatus(handle) {
      const result = await rowsOf(handle.name).findResult(handle.id)
      return result?.status ?? (await runtime.describe(processOf(handle)))?.state ?? 'idle'
    },
  }
}

type WorkOf<T> = (signal: AbortSignal) => Promise<T>
