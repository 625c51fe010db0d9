/** Plain DBOS as its documentation sets it up, with its own process and schema; each line of input runs one closed loop. */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { createInterface } from 'node:readline'
import { DBOS } from '@dbos-inc/dbos-sdk'
import { type Loop, runLoop, type Sample } from './closed-loop.ts'

type BareLoop = Omit<Loop, 'operation'> & { readonly steps: number }
export type BareDbos = { loop(loop: BareLoop): Promise<Sample>; end(): void }

/** The main function of the other process, `program --bare <url>`. */
export async function serveBareDbos(url: string): Promise<never> {
  const one = DBOS.registerWorkflow(async (id: string) => DBOS.runStep(async () => id, { name: 'only' }), {
    name: 'one',
  })
  const four = DBOS.registerWorkflow(
    async (id: string) => {
      for (const name of ['a', 'b', 'c', 'd']) await DBOS.runStep(async () => id, { name })
    },
    { name: 'four' },
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
    const { steps, ...loop } = JSON.parse(line) as BareLoop
    const start = (id: string) => (steps === 1 ? DBOS.startWorkflow(one)(id) : DBOS.startWorkflow(four)(id))
    const operation = async () => {
      const handle = await start(randomUUID())
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
  return {
    async loop(asked) {
      child.stdin.write(`${JSON.stringify(asked)}\n`)
      return JSON.parse(await next()) as Sample
    },
    end: () => void child.stdin.end(),
  }
}
