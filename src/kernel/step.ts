/** The steps of a command: one effect each, with input that may contain results of earlier steps. */
import { isPlainObject, type JsonObject, type JsonStep, type JsonValue } from './json-value.ts'

declare const resultOf: unique symbol

/** One effect of a command, as the `steps` of its definition list it. */
export type CommandStep<Result = unknown> = {
  readonly kind: 'step'
  readonly effect_type: string
  readonly input: object
  /** The definition of the effect, or the connector of the operation. */
  readonly source: object
  /** Only a type: the result is known when the step has run. */
  readonly [resultOf]?: Result
}

/** An effect or an operation of a connector as a function: a call of it is a step. */
export type Operation<Input extends object = never, Result = unknown> = ((input: Input) => CommandStep<Result>) & {
  readonly effect_type: string
  readonly source: object
}

export function makeOperation<Input extends object, Result>(
  effect_type: string,
  source: object,
): Operation<Input, Result> {
  const call = (input: Input): CommandStep<Result> => Object.freeze({ kind: 'step', effect_type, input, source })
  return Object.assign(call, { effect_type, source })
}

/** Stands for a value that an earlier step will return. */
class Reference {
  readonly source: CommandStep | Operation
  readonly field: string

  constructor(source: CommandStep | Operation, field: string) {
    this.source = source
    this.field = field
  }

  /** A text made from it would contain the reference instead of the value. */
  [Symbol.toPrimitive](): never {
    throw new TypeError(`from(…, '${this.field}') is not known while the steps are listed; pass it as a whole value`)
  }
}

type FieldOf<Result> = Result extends object ? keyof Result & string : string
type ValueOf<Result, Field extends string> = Field extends keyof Result ? Result[Field] : never

/** A field of the result of an earlier step: of this step, or of the last earlier step with this operation. */
export function from<Result, Field extends FieldOf<Result>>(
  source: CommandStep<Result> | Operation<never, Result>,
  field: Field,
): ValueOf<Result, Field> {
  // The type is that of the value which replaces the reference before the effect begins.
  return new Reference(source, field) as ValueOf<Result, Field>
}

/** A value of a payload that is a field of the result of an earlier step. */
export type ResultInput = { readonly path: readonly JsonStep[]; readonly step: number; readonly field: string }

export type ListedStep = {
  readonly effect_type: string
  /** A text stands for each value that is not known yet. */
  readonly payload: JsonObject
  readonly inputs: readonly ResultInput[]
}

/** Turns the steps into plain payloads. Throws if a step refers to a later one or holds a value that is not JSON. */
export function listSteps(steps: readonly CommandStep[]): readonly ListedStep[] {
  return steps.map(({ effect_type, input }, at) => {
    const inputs: ResultInput[] = []
    const plain = (value: unknown, path: readonly JsonStep[]): JsonValue => {
      if (value instanceof Reference) {
        const step = steps.slice(0, at).findLastIndex((earlier) => isOf(value, earlier))
        if (step === -1) throw new TypeError(`${effect_type} takes ${value.field} of a step that is not an earlier one`)
        inputs.push({ path, step, field: value.field })
        return `(${value.field} of step ${step + 1})`
      }
      if (Array.isArray(value)) return value.map((item, index) => plain(item, [...path, index]))
      if (value === null || typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value))
        return value as JsonValue
      if (value instanceof Date) return value.toISOString()
      if (typeof value !== 'object' || !isPlainObject(value))
        throw new TypeError(`${effect_type} has input that is not JSON at ${path.join('.')}`)
      const entries = Object.entries(value).filter(([, field]) => field !== undefined)
      return Object.fromEntries(entries.map(([name, field]) => [name, plain(field, [...path, name])]))
    }
    return { effect_type, payload: plain(input, []) as JsonObject, inputs }
  })
}

function isOf({ source }: Reference, step: CommandStep): boolean {
  return 'kind' in source ? source === step : source.effect_type === step.effect_type
}
