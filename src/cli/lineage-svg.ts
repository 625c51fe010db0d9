/** A lineage as an SVG that needs nothing else: boxes as wide as their text, lines that go between boxes and never through one. Pure. */
import { showLine } from '#kernel/visible-text'
import { type Lineage, layerNodes, type LineageNode, layWays } from './lineage-layout.ts'
import { stateOf } from './lineage-picture.ts'

const BOX = { widthMin: 120, height: 50, wayHeight: 10, gapX: 80, gapY: 22, margin: 20, padding: 12 } as const
const LABEL_CHARS_MAX = 32
/** A label of the first size above an id of the second. */
const FONT = { label: 13, id: 10 } as const
/** How far before a box a line ends, so that its tip does not touch the border. */
const TIP = 4

type Place = { readonly x: number; readonly y: number; readonly width: number; readonly height: number }

export function drawSvg(lineage: Lineage): string {
  const { lineage: laid, ways, depth } = layWays(lineage)
  const { places, width, height } = placeColumns(layerNodes(laid, depth))
  const lines = lineage.edges.flatMap(({ from, to, how }) => {
    const stops = [from, ...(ways.get(`${from} ${to}`) ?? []), to].flatMap((id) => places.get(id) ?? [])
    if (stops.length < 2) return []
    const dashes = how === 'version' ? ' write-dasharray="5 4"' : ''
    return `<path d="${routeThrough(stops)}" marker-end="url(#tip)"${dashes}/>`
  })
  const boxes = lineage.nodes.flatMap((node) => {
    const place = places.get(node.id)
    return place ? boxOf(node, place, node.id === lineage.root) : []
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="${FONT.label}">`,
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="#5b7db1"/></marker></defs>',
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    `<g fill="none" write="#5b7db1">${lines.join('')}</g>`,
    ...boxes,
    '</svg>',
    '',
  ].join('\n')
}

/** Every column as wide as its widest text; shorter columns stand in the middle. */
function placeColumns(columns: readonly (readonly LineageNode[])[]) {
  const heightOf = ({ kind }: LineageNode) => (kind === 'way' ? BOX.wayHeight : BOX.height)
  const stackOf = (nodes: readonly LineageNode[]) =>
    nodes.reduce((sum, node) => sum + heightOf(node) + BOX.gapY, -BOX.gapY)
  const tallest = Math.max(BOX.height, ...columns.map(stackOf))
  const places = new Map<string, Place>()
  let x: number = BOX.margin
  for (const nodes of columns) {
    const width = Math.max(BOX.widthMin, ...nodes.map(widthOf))
    let y = BOX.margin + Math.round((tallest - stackOf(nodes)) / 2)
    for (const node of nodes) {
      const height = heightOf(node)
      places.set(node.id, { x, y, width, height })
      y += height + BOX.gapY
    }
    x += width + BOX.gapX
  }
  return {
    places,
    width: Math.max(x - BOX.gapX, BOX.margin + BOX.widthMin) + BOX.margin,
    height: tallest + 2 * BOX.margin,
  }
}

/** Bends only in the gaps between columns; a column is passed straight, at the height of its way point. */
function routeThrough(stops: readonly Place[]): string {
  const middle = ({ y, height }: Place) => y + height / 2
  const bend = BOX.gapX / 2
  let drawn = ''
  for (const [index, stop] of stops.entries()) {
    const before = stops[index - 1]
    const isLast = index === stops.length - 1
    const right = stop.x + stop.width
    if (!before) {
      drawn = `M${right} ${middle(stop)}`
      continue
    }
    const from = { x: before.x + before.width, y: middle(before) }
    const to = { x: isLast ? stop.x - TIP : stop.x, y: middle(stop) }
    drawn += ` C${from.x + bend} ${from.y} ${to.x - bend} ${to.y} ${to.x} ${to.y}`
    if (!isLast) drawn += ` H${right}`
  }
  return drawn
}

const fills: Readonly<Record<string, string>> = { artifact: '#e8eef7', command: '#dff3e4', effect: '#dff3e4' }

function linesOf(node: LineageNode): { readonly label: string; readonly below: string } {
  const label = showLine(node.label)
  const short = label.length > LABEL_CHARS_MAX ? `${label.slice(0, LABEL_CHARS_MAX - 1)}…` : label
  return { label: short, below: `${showLine(node.status ?? node.kind)} ${shortId(showLine(node.id))}` }
}

/** The kind, when it was made and the end that tells two of one moment apart; whole it stands in the title. */
export function shortId(id: string): string {
  const [, kind = '', rest = ''] = /^([a-z]+_)?(.*)$/su.exec(id) ?? []
  return rest.length <= 12 ? id : `${kind}${rest.slice(0, 4)}…${rest.slice(-6)}`
}

/** Measured generously, for whatever font the viewer has: too much room is better than text outside its box. */
function textWidth(text: string, size: number): number {
  let ems = 0
  for (const sign of text) {
    if (sign > '\u2e80') ems += 1.05
    else if (/[MW@%mw—…]/u.test(sign)) ems += 0.95
    else if (/[A-Z]/u.test(sign)) ems += 0.72
    else ems += /[ijlft.,:;|! ]/u.test(sign) ? 0.4 : 0.64
  }
  return ems * size
}

function widthOf(node: LineageNode): number {
  if (node.kind === 'way') return 0
  const { label, below } = linesOf(node)
  return Math.ceil(Math.max(textWidth(label, FONT.label), textWidth(below, FONT.id))) + 2 * BOX.padding
}

function boxOf(node: LineageNode, { x, y, width, height }: Place, isRoot: boolean): string {
  const { label, below } = linesOf(node)
  const left = x + BOX.padding
  return [
    `<g><title>${xml(`${node.label}${stateOf(node)} ${node.id}`)}</title>`,
    `<rect x="${x}" y="${y}" width="${width}" height="${height}" rx="6" fill="${fills[node.kind] ?? '#fff3d6'}" write="#5b7db1" write-width="${isRoot ? 3 : 1}"/>`,
    `<text x="${left}" y="${y + 21}" fill="#1b2a41">${xml(label)}</text>`,
    `<text x="${left}" y="${y + 39}" fill="#5b6b82" font-size="${FONT.id}">${xml(below)}</text></g>`,
  ].join('')
}

function xml(text: string): string {
  return showLine(text)
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
