/** Plain DBOS as its documentation sets it up, with its own process and schema; each line of input runs one closed loop. */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { createInterface } from 'node:readline'
import { DBOS } from '@dbos-inc/dbos-sdk'
import { type Loop, runLoop, type Sample } from './closed-loop.ts'

type BareLoop = Omit<Loop, 'operation'> & { readonly steps: number }
export type BareDbos = {
  loop(loop: BareLoop): Promise<Sample>
  /** One workflow with this many children, each of one step. Returns how long it took, in ms. */
  children(children: number, inFlight: number): Promise<number>
  end(): void
}

/** The main function of the other process, `program --bare <url>`. */
export async function serveBareDbos(url: string): Promise<never> {
  const work = DBOS.registerWorkflow(
    async (id: string, steps: number) => {
      for (let step = 0; step < steps; step++) await DBOS.runStep(async () => id, { name: `step_${step}` })
    },
    { name: 'work' },
  )
  const parent = DBOS.registerWorkflow(
    async (children: number, inFlight: number) => {
      for (let begun = 0; begun < children; begun += inFlight) {
        const handles = []
        for (let nth = begun; nth < Math.min(children, begun + inFlight); nth++)
          handles.push(await DBOS.startWorkflow(work)(`child ${nth}`, 1))
        for (const handle of handles) await handle.getResult()
      }
    },
    { name: 'parent' },
  )
  DBOS.setConfig({
    name: 'bare',
    systemDatabaseUrl: url,
    systemDatabaseSchemaName: 'dbos_bare',
    executorID: 'bare',
    logLevel: 'error',
  })
  await DBOS.launch()
  console.log('ready')
  for await (const line of createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line) as BareLoop | { readonly children: number; readonly inFlight: number }
    if ('children' in asked) {
      const from = performance.now()
      await (await DBOS.startWorkflow(parent)(asked.children, asked.inFlight)).getResult()
      console.log(performance.now() - from)
      continue
    }
    const { steps, ...loop } = asked
    const operation = async () => {
      const handle = await DBOS.startWorkflow(work)(randomUUID(), steps)
      await handle.getResult()
    }
    console.log(JSON.stringify(await runLoop({ ...loop, operation })))
  }
  process.exit(0)
}

export async function openBareDbos(program: string, url: string): Promise<BareDbos> {
  const child = spawn(process.execPath, [program, '--bare', url], { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const next = async () => String((await lines.next()).value)
  const first = await next()
  if (first !== 'ready') throw new Error(`The other process printed ${first}.`)
  const ask = async (asked: object): Promise<unknown> => {
    child.stdin.write(`${JSON.stringify(asked)}\n`)
    return JSON.parse(await next())
  }
  return {
    loop: async (asked) => (await ask(asked)) as Sample,
    children: async (children, inFlight) => (await ask({ children, inFlight })) as number,
    end: () => void child.stdin.end(),
  }
}
