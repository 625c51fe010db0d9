import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '#test/until'
import { accepted } from '#test/tenant'
import { frameOf, openStreams, type StreamedEvent, streamEvents } from './event-stream.ts'

const anEvent = (number: number): StreamedEvent => ({ cursor: `${number}.1`, type: 'thing_happened', data: { number } })
const KEY = { keyId: 'k', userId: 'u' }
const always = () => Promise.resolve(Number.POSITIVE_INFINITY)
const placeOf = (right: () => Promise<number | undefined> = always) => accepted(openStreams(1).open(KEY, right))
const quietOptions = { start: '0.0', heartbeatMs: 60_000, place: placeOf(), onError: () => {} }

/** A source that counts what was taken from it and waits for the end of the signal when it is empty. */
function aSource(count: number) {
  const seen = { taken: 0, ended: false }
  async function* follow(signal: AbortSignal): AsyncGenerator<StreamedEvent> {
    try {
      for (let at = 1; at <= count; at++) {
        seen.taken += 1
        yield anEvent(at)
      }
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    } finally {
      seen.ended = true
    }
  }
  return { follow, seen }
}

async function readFrames(stream: ReadableStream<Uint8Array>, count: number): Promise<string[]> {
  const reader = stream.getReader()
  const frames: string[] = []
  while (frames.length < count) {
    const { done, value } = await reader.read()
    if (done) break
    frames.push(new TextDecoder().decode(value))
  }
  await reader.cancel()
  return frames
}

test('a frame has its cursor, its type and its data on one line each', () => {
  const event = { cursor: '7.2', type: 'thing_happened', data: { text: 'two\nlines \u2028 \r' } }
  const lines = frameOf(event).split('\n')
  assert.equal(lines.length, 5)
  assert.deepEqual(lines.slice(0, 2), ['id: 7.2', 'event: thing_happened'])
  assert.deepEqual(JSON.parse(lines[2]?.slice('data: '.length) ?? ''), event.data)
})

test('events come in order after an opening line', async () => {
  const { follow } = aSource(3)
  const frames = await readFrames(streamEvents(follow, { ...quietOptions, place: placeOf() }), 4)
  assert.match(frames[0] ?? '', /^retry: 2000/)
  assert.deepEqual(
    frames.slice(1),
    [1, 2, 3].map((at) => frameOf(anEvent(at))),
  )
})

test('a reader that stops reading stops the source: at most one event waits', async () => {
  const { follow, seen } = aSource(1_000)
  const reader = streamEvents(follow, { ...quietOptions, place: placeOf() }).getReader()
  await reader.read()
  await new Promise((resolve) => setTimeout(resolve, 30))
  assert.ok(seen.taken <= 2, `${seen.taken} were taken for a reader that took none`)
  for (let at = 0; at < 10; at++) await reader.read()
  await new Promise((resolve) => setTimeout(resolve, 10))
  assert.ok(seen.taken <= 12, `${seen.taken} were taken for a reader that took ten`)
  await reader.cancel()
})

test('a reader that leaves ends the source and its place is free', async () => {
  const { follow, seen } = aSource(1)
  const streams = openStreams(1)
  const reader = streamEvents(follow, { ...quietOptions, place: accepted(streams.open(KEY, always)) }).getReader()
  assert.equal(streams.open(KEY, always).ok, false)
  await reader.read()
  await reader.read()
  await reader.cancel()
  await until(() => seen.ended, 'its end')
  assert.equal(streams.open(KEY, always).ok, true)
})

test('a quiet stream sends heartbeats, and closes when the caller is no longer allowed', async () => {
  const { follow, seen } = aSource(0)
  let asked = 0
  const place = placeOf(() => Promise.resolve(++asked < 3 ? Number.POSITIVE_INFINITY : undefined))
  const frames = await readFrames(streamEvents(follow, { ...quietOptions, heartbeatMs: 5, place }), 100)
  assert.deepEqual(frames.slice(1), [': beat\n\n', ': beat\n\n'])
  assert.equal(asked, 3)
  assert.equal(seen.ended, true)
})

test('a busy stream checks the credential too', async () => {
  async function* flood(): AsyncGenerator<StreamedEvent> {
    for (let at = 1; ; at++) {
      await new Promise((resolve) => setTimeout(resolve, 1))
      yield anEvent(at)
    }
  }
  const frames = await readFrames(
    streamEvents(flood, { ...quietOptions, heartbeatMs: 20, place: placeOf(() => Promise.resolve(undefined)) }),
    10_000,
  )
  assert.ok(frames.length < 1_000)
})

test('a source that fails closes the stream and is reported', async () => {
  async function* broken(): AsyncGenerator<StreamedEvent> {
    yield anEvent(1)
    throw new Error('database gone')
  }
  const errors: unknown[] = []
  const frames = await readFrames(
    streamEvents(broken, { ...quietOptions, place: placeOf(), onError: (error) => errors.push(error) }),
    10,
  )
  assert.equal(frames.length, 2)
  assert.equal(String(errors[0]), 'Error: database gone')
})

test('[M7] a stream ends when its credential expires, without a heartbeat', async () => {
  const { follow, seen } = aSource(0)
  const left = [5, undefined]
  const place = placeOf(() => Promise.resolve(left.shift()))
  const frames = readFrames(streamEvents(follow, { ...quietOptions, heartbeatMs: 3_600_000, place }), 100)
  // A timer of its own keeps the process alive for the timer of the place, which does not.
  const alive = setInterval(() => {}, 1_000)
  await place.check()
  assert.equal((await frames).length, 1)
  clearInterval(alive)
  assert.deepEqual([left.length, seen.ended], [0, true])
})
