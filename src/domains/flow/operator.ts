/** An operator does the work of jobs: in this process, in workers, or in a function at an address. */
import type { z } from 'zod'
import { KernelFault } from '#kernel/errors'
import type { JsonObject } from '#kernel/json-value'
import type { DataStore } from './data-store.ts'
import type { OutputReport } from './decide-flow.ts'

export type FlowTaskPayload = {
  readonly task_id: string
  readonly attempt: number
  readonly lease_token: string
  readonly lease_expires_at: string
  readonly job: {
    readonly name: string
    readonly dag: string
    readonly operator: string
    readonly config: JsonObject
    readonly update_strategy: string
    readonly unique_key: readonly string[]
  }
  readonly partitions: readonly string[]
  readonly inputs: readonly {
    readonly dataset: string
    readonly version: string
    readonly partition: string | null
    readonly materialized_at: string | null
  }[]
  readonly outputs: readonly {
    readonly index: number
    readonly dataset: string
    readonly version: string
  }[]
  /** What the operator remembers, by state key. */
  readonly state: JsonObject
}

export type PayloadRow = {
  readonly org_id: string
  readonly dag_name: string
  readonly name: string
  readonly operator: string
  readonly config: JsonObject
  readonly update_strategy: string
  readonly unique_key: readonly string[] | null
  readonly inputs: readonly {
    readonly dataset: string
    readonly version: string
    readonly location: string
    readonly kind: string
    readonly partition: string | null
    readonly at: string | null
  }[]
  readonly outputs: readonly {
    readonly index: number
    readonly dataset: string
    readonly version: string
    readonly location: string
    readonly kind: string
  }[]
  readonly state: JsonObject
}

/** What an operator returns: the outputs by index, and what it remembers for the next task. */
export type OperatorResult = {
  readonly outputs?: readonly OutputReport[]
  readonly state?: JsonObject
}

/** The input of an operator. A task may run twice: `append` by key and `replace` by version make that harmless. */
export type OperatorCall<Config = JsonObject> = Omit<FlowTaskPayload, 'job'> & {
  readonly config: Config
  readonly job: FlowTaskPayload['job']
  readonly orgId: string
  /** Aborted when the lease is lost, the time limit has passed, or the process stops. */
  readonly signal: AbortSignal
  /** Where the inputs and outputs are stored, for operators of this process. */
  readonly row: PayloadRow
  readonly data: DataStore
}

export type Operator = {
  readonly name: string
  readonly config: z.ZodType
  /** Absent: workers run it. */
  readonly do?: (call: OperatorCall<never>) => Promise<OperatorResult>
  /** The address of a function, for the runtime `lambda`. */
  readonly url?: string
}

export type Operators = ReadonlyMap<string, Operator>

const NAME = /^[a-z][a-z0-9_]{0,62}$/

export function defineOperator<Config extends z.ZodType>(spec: {
  readonly name: string
  readonly config: Config
  readonly do?: (call: OperatorCall<z.output<Config>>) => Promise<OperatorResult>
  readonly url?: string
}): Operator {
  if (!NAME.test(spec.name)) throw new KernelFault('flow.operator.name', `${spec.name} is not the name of an operator.`)
  return spec
}
