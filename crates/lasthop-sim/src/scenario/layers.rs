//! Stacked link layers: reading, writing, and the environment of each layer.

use lasthop_base::packet::MAX_LAYERS;
use lasthop_base::schema::keys::{Field, Limits, Node, Read};
use lasthop_base::units::Bytes;
use lasthop_link::link::{Air, CarriesFrames, LinkEndpoint, LinkError, Protocol, Site, stack};
use serde_json::Value;

/// The protocols of a link with stacked layers, the uppermost first: `protocol = [{ kind = "rlc-am"
/// }, { kind = "harq" }]`. Frame headers have the default length of their protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct Layers(Vec<Protocol>);

impl Layers {
    /// Reads a list of protocols.
    pub(super) fn read(node: &Node<'_>, items: &[Value], limits: Limits) -> Read<Self> {
        let allowed = || format!("2 to {MAX_LAYERS} protocols, the uppermost layer first");
        if !(2..=MAX_LAYERS).contains(&items.len()) {
            let found = match items.len() {
                1 => "a list of 1 protocol".to_owned(),
                count => format!("a list of {count} protocols"),
            };
            return Err(node.error(found, format!("{}, or one without list", allowed())));
        }
        let item = |(index, value)| {
            let node = Node { value, path: format!("{}[{index}]", node.path), files: node.files };
            let protocol = Protocol::read(&node, limits)?;
            if protocol.is_ideal() {
                let found = format!("{:?} as a layer", protocol.kind());
                return Err(node.error(found, "a protocol without ideal feedback"));
            }
            Ok(protocol)
        };
        items.iter().enumerate().map(item).collect::<Read<_>>().map(Layers)
    }

    /// Returns the list in the format that [`Self::read`] accepts.
    pub(super) fn write(&self) -> Value {
        self.0.iter().map(Field::write).collect()
    }

    /// Returns the protocols, the uppermost layer first.
    pub fn protocols(&self) -> &[Protocol] {
        &self.0
    }

    /// Returns the names of the layers: the kinds of their protocols. From the second layer of a
    /// kind onwards, the number of the layer is appended.
    pub fn names(&self) -> Vec<String> {
        let name = |(index, protocol): (usize, &Protocol)| {
            let is_known = self.0[..index].iter().any(|other| other.kind() == protocol.kind());
            match is_known {
                true => format!("{}-{}", protocol.kind(), index + 1),
                false => protocol.kind().to_owned(),
            }
        };
        self.0.iter().enumerate().map(name).collect()
    }

    /// Returns the total length of the frame headers of all layers.
    pub fn header(&self) -> Bytes {
        Bytes::new(self.0.iter().map(|layer| layer.default_header().get()).sum())
    }

    /// Returns the uppermost layer whose transmissions can be limited.
    pub fn limited(&self) -> Option<usize> {
        self.0.iter().position(Protocol::limits_transmissions)
    }

    /// Checks the keys of each layer against the directions of the link. `path` is the key of the
    /// list.
    pub(super) fn check(&self, path: &str, directions: [Air; 2]) -> Read<()> {
        for (index, layer) in self.0.iter().enumerate() {
            layer.check(&format!("{path}[{index}]"), Bytes::default(), directions)?;
        }
        Ok(())
    }

    /// Returns the site of each layer at `site` of the link. Packets of a lower layer are frames of
    /// the layer above. Frames of an upper layer also have the headers of the lower layers, and may
    /// be delayed until these have repaired a loss.
    pub fn sites(&self, site: &Site) -> Vec<Site> {
        let mut packet = site.packet;
        let mut sites: Vec<Site> = Vec::with_capacity(self.0.len());
        for layer in &self.0 {
            let header = layer.default_header();
            sites.push(Site { packet, header, ..*site });
            packet = layer.largest_frame(packet, header);
        }
        let (mut identifier, mut repair) = (Bytes::default(), site.repair);
        for (layer, own) in self.0.iter().zip(&mut sites).rev() {
            *own = Site { identifier, repair, ..*own };
            let headers = layer.framed(own.packet, own.header).get() - own.packet.get();
            identifier = Bytes::new(identifier.get() + headers);
            let opposite =
                Site { own: own.other, other: own.own, repair: [repair[1], repair[0]], ..*own };
            let times = [*own, opposite].map(|site| layer.repair_time(&site));
            repair = [repair[0] + times[0], repair[1] + times[1]];
        }
        sites
    }

    /// Builds the endpoint at `site` of the link.
    ///
    /// # Errors
    /// If keys of a layer contradict each other or the keys of the link.
    pub fn build<P: CarriesFrames>(&self, site: &Site) -> Result<LinkEndpoint<P>, LinkError> {
        let layers = self.0.iter().zip(self.sites(site));
        let layers = layers.map(|(layer, site)| layer.build(&site)).collect::<Result<_, _>>()?;
        stack(layers, self.limited())
    }
}
