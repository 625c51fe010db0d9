/**
 * The classic names of a durable runtime as thin forms over turns: to submit is the first wake, to signal is a row and a
 * wake, to cancel is a flag on the row and a wake (never the engine's hard cancel), and a result is what the row says.
 */
import type { CatalogRuntime } from '#kernel/saga/manifests'
import type { Decision } from '#kernel/refusal'
import type { JoinableTx, Process, Runtime, ScheduleSpec, ScheduleView } from './port.ts'
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
  findResult(id: string): Promise<WorkflowResult | undefined>
  /** Resolves when the row may have changed: the store's feed, or a clock. */
  changed(id: string): Promise<void>
}

export type DurableProtocol = {
  readonly capabilities: CatalogRuntime['capabilities']
  submitWorkflow(spec: WorkflowSpec): Promise<Decision<WorkflowHandle>>
  waitForResult(handle: WorkflowHandle): Promise<WorkflowResult>
  cancel(handle: WorkflowHandle, mode: CancelMode): Promise<'requested' | 'already_final' | 'unknown'>
  enqueueStep(queueName: string, spec: StepSpec): Promise<Decision<StepHandle>>
  schedule(spec: ScheduleSpec): Promise<Decision<ScheduleView>>
  signal(handle: WorkflowHandle, name: string, payload: unknown, messageId: string): Promise<void>
}

export function durableProtocol<Tx extends JoinableTx>(
  runtime: Runtime,
  rowsOf: (kind: string) => ProcessRows<Tx>,
): DurableProtocol {
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
  }
}
